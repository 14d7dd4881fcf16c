// Zoomed in until an event is some pixels wide, each block is a strip of its own within its role, those that came
// first lowest: a strip moves down where one below it goes.

const STRIP_EVENT_WIDTH = 4;  // pixels of an event, from which on strips are drawn
const STRIP_HEIGHT = 3;       // of a strip that is drawn at all
const MOST_BLOCKS = 20000;

const RANK = STACK.reduce((ranks, role, place) => Object.assign(ranks, { [role]: place }), {});
function isBelow(x, y) { return x.rank < y.rank || (x.rank === y.rank && x.b < y.b); }

// Live blocks at event i from the bottom of the stack to its top: [{b, rank}].
function stackAt(device, i) {
  const live = device.history.alive.at(i).map((b) => ({ b, rank: RANK[device.roleOf(b, i)] }));
  return live.sort((x, y) => (isBelow(x, y) ? -1 : 1));
}

// Turns the stack at event i - 1 into the one at i.
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

// How high the middle of block b lies in the stack at event i; undefined where it is not in it.
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

// The block that is pointed at, or pinned.
function markStrips(context, runs) {
  context.fillStyle = themeColor("--ink");
  context.globalAlpha = 0.25;
  for (const { x, width, top, bottom } of runs) context.fillRect(MARGIN.left + x, top, width, bottom - top);
  context.globalAlpha = 1;
}

// Along the foot of the picture, at any zoom: from where to where a block lives.
function drawLife({ context, device, x, width }, b) {
  if (b === NONE) return;
  const place = (i) => Math.max(0, Math.min(width, x(app.timeline.placeOf(i))));
  const [from, to] = [place(device.blocks.born[b]), place(device.blocks.died[b])];
  context.fillStyle = themeColor("--ink");
  context.fillRect(MARGIN.left + from, MARGIN.top + PLOT_HEIGHT, Math.max(2, to - from), 3);
}

// The rectangles of all strips: a block has one for each stretch of events in which it stays where it is.
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

// Each block's name once, in its largest rectangle.
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
