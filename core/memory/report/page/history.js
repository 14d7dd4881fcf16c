// The levels of a device at any event, in constant time: the levels at every 32nd event are stored, and the others are
// summed from there. LiveSets does the same for the set of live blocks.

const STRIDE = 32;
// The columns of a stored row, after the columns of the roles.
const REQUESTED = ROLE_COUNT;
const RESERVED = ROLE_COUNT + 1;
const ROW = ROLE_COUNT + 2;

class History {
  constructor(device) {
    this.device = device;
    const n = device.count;
    this.allocated = new Float64Array(n);
    this.rows = new Float64Array(Math.ceil(n / STRIDE) * ROW);
    this.alive = new LiveSets(device);
    const level = new Float64Array(ROW);
    let allocated = 0;
    for (let i = 0; i < n; ++i) {
      allocated += this.apply(i, level);
      this.allocated[i] = allocated;
      if (i % STRIDE === 0) this.rows.set(level, (i / STRIDE) * ROW);
      this.alive.apply(i);
    }
    this.pyramid = new Pyramid(this.allocated);
    this.peak = Math.max(0, device.header.peak.end - 1);  // after the retags that follow the allocation at the peak
  }

  // Adds event i to a row. Returns the change of the allocated bytes.
  apply(i, level) {
    const { events, blocks, segments, blockOf } = this.device;
    const kind = events.kind[i];
    if (kind === KIND.segmentAlloc || kind === KIND.segmentFree) {
      const bytes = segments.bytes[events.target[i]];
      level[RESERVED] += kind === KIND.segmentAlloc ? bytes : -bytes;
      return 0;
    }
    const b = blockOf[i];
    if (b === NONE) return 0;
    const bytes = blocks.bytes[b];
    if (kind === KIND.alloc) {
      level[events.role[i]] += bytes;
      level[REQUESTED] += blocks.requested[b];
      return bytes;
    }
    if (kind === KIND.free) {
      level[events.role[i]] -= bytes;
      level[REQUESTED] -= blocks.requested[b];
      return -bytes;
    }
    if (kind === KIND.retag) {
      level[this.device.roleBefore[i]] -= bytes;
      level[events.role[i]] += bytes;
    }
    return 0;
  }

  // The row at event i: bytes by role, then REQUESTED and RESERVED. Before the first event all are 0.
  at(i) {
    if (i < 0) return new Float64Array(ROW);
    const kept = Math.floor(i / STRIDE);
    const level = this.rows.slice(kept * ROW, (kept + 1) * ROW);
    for (let e = kept * STRIDE + 1; e <= i; ++e) this.apply(e, level);
    return level;
  }
}

// The blocks alive at any event. Some sets are stored: the larger the set, the fewer of them.
class LiveSets {
  constructor(device) {
    this.device = device;
    this.kept = [];  // [event, blocks]
    this.now = [];
    this.place = new Uint32Array(device.blocks.bytes.length);
    this.nextAt = 0;
  }

  apply(i) {
    change(this.device, i, this.now, this.place);
    if (i < this.nextAt) return;
    this.kept.push([i, Uint32Array.from(this.now)]);
    this.nextAt = i + Math.max(2048, 4 * this.now.length);
  }

  // Blocks alive at event i, in no order.
  at(i) {
    if (i < 0) return [];
    const [from, blocks] = this.kept[d3.bisector(([event]) => event).right(this.kept, i) - 1];
    const live = Array.from(blocks);
    live.forEach((b, p) => { this.place[b] = p; });
    for (let e = from + 1; e <= i; ++e) change(this.device, e, live, this.place);
    return live;
  }
}

// Applies event i to the list `live` of blocks. `place` has the index of each block in the list.
function change(device, i, live, place) {
  const kind = device.events.kind[i];
  if (kind === KIND.alloc) {
    place[device.blockOf[i]] = live.length;
    live.push(device.blockOf[i]);
  } else if (kind === KIND.free) {
    const at = place[device.blockOf[i]];
    const last = live.pop();
    if (last === device.blockOf[i]) return;
    live[at] = last;
    place[last] = at;
  }
}
