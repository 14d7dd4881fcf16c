// If an event is some pixels wide, each block is drawn as a strip within its role, the oldest at the bottom. A strip
// moves down when a strip below it ends.

const STRIP_EVENT_WIDTH = 4;  // least pixels of an event for which strips are drawn
const STRIP_HEIGHT = 3;       // least pixels of a strip that is drawn
const MOST_BLOCKS = 20000;

const RANK = STACK.reduce((ranks, role, place) => Object.assign(ranks, { [role]: place }), {});
function isBelow(x, y) { return x.rank < y.rank || (x.rank === y.rank && x.b < y.b); }

// Live blocks at event i from the bottom of the stack to its top: [{b, rank}].
function stackAt(device, i) {
  const live = device.history.alive.at(i).map((b) => ({ b, rank: RANK[device.roleOf(b, i)] }));
  return live.sort((x, y) => (isBelow(x, y) ? -1 : 1));
}

// Updates the stack from event i - 1 to event i.
function moveOn(device, stack, i) {
  const kind = device.events.kind[i];
  const b = device.blockOf[i];
  if (kind === KIND.free || kind === KIND.retag) stack.splice(stack.findIndex((s) => s.b === b), 1);
  if (kind !== KIND.alloc && kind !== KIND.retag) return;
  const added = { b, rank: RANK[device.events.role[i]] };
  const above = stack.findIndex((s) => isBelow(added, s));
  stack.splice(above < 0 ? stack.length : above, 0, added);
}

// The block that holds the `bytes`th byte of the stack at event i.
function blockAt(device, i, bytes) {
  let below = 0;
  for (const { b } of stackAt(device, i)) {
    below += device.blocks.bytes[b];
    if (bytes < below) return b;
  }
  return NONE;
}

// The height of the middle of block b in the stack at event i; undefined if it is not in the stack.
function middleInStack(device, i, b) {
  let below = 0;
  for (const s of stackAt(device, i)) {
    if (s.b === b) return below + device.blocks.bytes[b] / 2;
    below += device.blocks.bytes[s.b];
  }
}

function showsStrips({ columns, width, device }) {
  const events = columns[columns.length - 1].to - columns[0].from;
  return events * STRIP_EVENT_WIDTH <= width && device.history.alive.at(columns[0].low).length <= MOST_BLOCKS;
}

function drawStrips(timeline) {
  const runs = runsOf(timeline);
  outlineStrips(timeline.context, runs);
  labelStrips(timeline, runs);
  markStrips(timeline.context, runs.filter((r) => r.b === (app.hovered?.block ?? app.pinned)));
}

function outlineStrips(context, runs) {
  context.lineWidth = 1;
  context.strokeStyle = themeColor("--surface");
  context.globalAlpha = 0.55;
  context.beginPath();
  for (const { x, width: w, top } of runs) {
    context.moveTo(MARGIN.left + x, top);
    context.lineTo(MARGIN.left + x + w, top);
  }
  for (const { x, top, bottom, starts } of runs) {
    if (!starts) continue;
    context.moveTo(MARGIN.left + x, top);
    context.lineTo(MARGIN.left + x, bottom);
  }
  context.stroke();
  context.globalAlpha = 1;
}

// Marks the block under the pointer, or the pinned one.
function markStrips(context, runs) {
  context.fillStyle = themeColor("--ink");
  context.globalAlpha = 0.25;
  for (const { x, width, top, bottom } of runs) context.fillRect(MARGIN.left + x, top, width, bottom - top);
  context.globalAlpha = 1;
}

// Draws a block's lifetime at the bottom of the picture, at any zoom.
function drawLife({ context, device, x, width }, b) {
  if (b === NONE) return;
  const place = (i) => Math.max(0, Math.min(width, x(app.timeline.placeOf(i))));
  const [from, to] = [place(device.blocks.born[b]), place(device.blocks.died[b])];
  context.fillStyle = themeColor("--ink");
  context.fillRect(MARGIN.left + from, MARGIN.top + PLOT_HEIGHT, Math.max(2, to - from), 3);
}

// The rectangles of all strips. A block has one for each run of events in which its place does not change.
function runsOf({ columns, device, y }) {
  const open = new Map();  // block: its rectangle
  const runs = [];
  let at = columns[0].low;
  const stack = stackAt(device, at);
  for (const column of columns) {
    while (at < column.low) moveOn(device, stack, ++at);
    let below = 0;
    const seen = new Map();
    for (const { b, rank } of stack) {
      const [bottom, top] = [y(below), y((below += device.blocks.bytes[b]))];
      if (bottom - top < STRIP_HEIGHT) continue;
      const before = open.get(b);
      const goesOn = before && before.top === top && before.rank === rank;
      const run = goesOn ? before : { b, rank, x: column.x, width: 0, top, bottom, starts: !before };
      run.width += column.width;
      if (!goesOn) runs.push(run);
      seen.set(b, run);
    }
    open.clear();
    for (const [b, run] of seen) open.set(b, run);
  }
  return runs;
}

// Writes each block's name once, in its largest rectangle.
function labelStrips({ context, device }, runs) {
  const largest = new Map();
  for (const run of runs) if (!(run.width <= largest.get(run.b)?.width)) largest.set(run.b, run);
  context.font = `10.5px ${themeColor("--sans")}`;
  context.textBaseline = "middle";
  for (const { b, rank, x, width, top, bottom } of largest.values()) {
    if (width < 30 || bottom - top < 12) continue;
    const [title, size] = [device.titleOf(b), formatBytes(device.blocks.bytes[b])];
    const label = [`${title}  ${size}`, title, size].find((text) => context.measureText(text).width <= width - 12);
    if (!label) continue;
    context.fillStyle = themeColor(`--on-role-${STACK[rank]}`);
    context.fillText(label, MARGIN.left + x + 6, (top + bottom) / 2);
  }
}
