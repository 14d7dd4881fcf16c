// One device of a run, event by event. The state "at" event i is the state after it.

const NONE = 0xffffffff;
const KIND = {
  segmentAlloc: 0, segmentFree: 1, alloc: 2, free: 3, retag: 4, stepBegin: 5, stepEnd: 6, outOfMemory: 7,
  toDevice: 8, toHost: 9, wait: 10, hold: 11, drop: 12,
};
const ROLE = {
  parameter: 0, autocastCopy: 1, gradient: 2, optimizerState: 3, input: 4, saved: 5, temporary: 6, workspace: 7,
  keyValueCache: 8, communication: 9,
};
const ROLE_COUNT = 10;
const PHASE = { setup: 0, data: 1, forward: 2, backward: 3, optimizer: 4 };

class Device {
  constructor(header, { buffer, names, scopes, work, counts, countedSteps, fromLedgers, devices }, index) {
    this.header = header;
    this.index = index;  // number among the run's devices
    this.isRecorded = !fromLedgers;  // ledgers' logs have no times, nor who freed or saved a block
    this.name = header.name;
    this.names = names;
    this.events = readTable(buffer, header.events);
    this.blocks = readTable(buffer, header.blocks);
    this.segments = readTable(buffer, header.segments);
    this.count = this.events.kind.length;
    this.time = sumsOf(this.events.elapsed);
    this.link();
    this.history = new History(this);
    this.mainThread = trainingThread(this.events);
    this.carryForward();
    this.scopes = scopesOf(readTable(buffer, scopes), this.mainThread);
    this.work = new DeviceWork(readTable(buffer, work), devices);
    this.counts = new WorkCounts(readTable(buffer, counts), readTable(buffer, countedSteps));
    this.roots = new RootModules(this);
  }

  // Links the events of each block, and finds the events that allocate and free blocks and segments.
  link() {
    const { kind, target } = this.events;
    const { blocks, segments } = this;
    const n = this.count;
    this.blockOf = new Uint32Array(n).fill(NONE);
    this.next = new Uint32Array(n).fill(NONE);
    blocks.born = new Uint32Array(blocks.bytes.length);
    blocks.died = new Uint32Array(blocks.bytes.length).fill(n);
    segments.born = new Uint32Array(segments.bytes.length);
    segments.died = new Uint32Array(segments.bytes.length).fill(n);
    this.roleBefore = new Uint8Array(n);  // role of the event's block before the event
    this.failures = [];  // events of requests that ran out of memory
    const last = new Uint32Array(blocks.bytes.length);
    let made = 0;
    for (let i = 0; i < n; ++i) {
      const k = kind[i];
      if (k === KIND.alloc) {
        blocks.born[made] = last[made] = i;
        this.blockOf[i] = made++;
      } else if (k === KIND.free || k === KIND.retag || k === KIND.hold || k === KIND.drop) {
        const b = made - target[i];
        this.blockOf[i] = b;
        this.next[last[b]] = i;
        this.roleBefore[i] = this.events.role[last[b]];
        last[b] = i;
        if (k === KIND.free) blocks.died[b] = i;
      } else if (k === KIND.segmentAlloc) {
        segments.born[target[i]] = i;
      } else if (k === KIND.segmentFree) {
        segments.died[target[i]] = i;
      } else if (k === KIND.outOfMemory) {
        this.failures.push(i);
      }
    }
  }

  // Finds the step, phase, module and op of the main thread at each event, also at the events of other threads.
  carryForward() {
    const { thread, step, phase, byModule, byOp } = this.events;
    const main = { step: step.slice(), phase: phase.slice(), module: byModule.slice(), op: byOp.slice() };
    for (let i = 1; i < this.count; ++i)
      if (thread[i] !== this.mainThread)
        for (const column of Object.values(main)) column[i] = column[i - 1];
    this.main = main;
  }

  // The last event of block b's chain at or before event i.
  lastEventOf(b, i) {
    let e = this.blocks.born[b];
    while (this.next[e] <= i) e = this.next[e];
    return e;
  }
  roleOf(b, i) { return this.events.role[this.lastEventOf(b, i)]; }
  moduleOf(b, i) { return this.events.module[this.lastEventOf(b, i)]; }
  // All events of block b, in order.
  eventsOf(b) {
    const chain = [];
    for (let e = this.blocks.born[b]; e !== NONE; e = this.next[e]) chain.push(e);
    return chain;
  }

  // The limit of reserved bytes after event i; null: no limit.
  limitAt(i) { return this.header.limits.findLast(({ from }) => from <= i).bytes; }

  moduleName(id) { return this.names[id] || "(outside modules)"; }
  opName(id) { return this.names[id] || "(no op)"; }
  // "f32 64x3x32x32", or the op that allocated the block.
  titleOf(b) { return this.names[this.blocks.what[b]] || this.opName(this.blocks.op[b]); }
  // "forward, step 3"
  whenOf(i) {
    const phase = report.phases[this.events.phase[i]];
    return this.events.step[i] ? `${phase}, step ${this.events.step[i]}` : `${phase}, outside steps`;
  }

  // [{number, begin, end, isWhole}]: steps, with their first and last events.
  get steps() { return (this.stepList ??= stepsOf(this)); }
}

// The changes of the thread's phase, module and op, with times; empty if the recording has no marks.
function scopesOf({ elapsed, thread, phase, stage, module, op, beginsOp }, mainThread) {
  const time = sumsOf(elapsed);
  const rows = d3.range(time.length).filter((i) => thread[i] === mainThread);
  const column = (values) => rows.map((i) => values[i]);
  const modules = column(module);
  return { time: column(time), phase: column(phase), stage: column(stage), module: modules, op: column(op), beginsOp: column(beginsOp),
    usedModules: [...new Set(modules)].filter(Boolean) };
}

function sumsOf(differences) {
  const sums = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < sums.length; ++i) sums[i] = sum += differences[i];
  return sums;
}

// The thread that marks steps; if none does, the one with the most events.
function trainingThread({ kind, thread }) {
  const marked = thread.filter((_, i) => kind[i] === KIND.stepBegin);
  return mostFrequent(marked.length ? marked : thread);
}

function mostFrequent(values) {
  const counts = new Map();
  for (const v of values) counts.set(v, (counts.get(v) ?? 0) + 1);
  return d3.greatest(counts, ([, count]) => count)?.[0] ?? 0;
}

function stepsOf(device) {
  const { kind, target, thread } = device.events;
  const steps = [];
  for (let i = 0; i < device.count; ++i) {
    const last = steps[steps.length - 1];
    if (kind[i] === KIND.stepBegin && thread[i] === device.mainThread)
      steps.push({ number: target[i], begin: i, end: device.count - 1, isWhole: false });
    if (kind[i] === KIND.stepEnd && last?.number === target[i] && !last.isWhole) Object.assign(last, { end: i, isWhole: true });
  }
  return steps;
}
