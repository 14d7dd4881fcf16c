// Compares the bytes held after two steps, to find leaks, and to see why a later step takes more than the first.

const stepsShown = { a: null, b: null, at: "end" };

function drawSteps(view, device) {
  const steps = device.steps;
  if (steps.length < 2) return view.append(note("This view needs two steps, marked with memory::Step."));
  const a = Math.min(stepsShown.a ?? (steps.length > 2 ? 1 : 0), steps.length - 1);  // the first one has no optimizer state yet
  const b = Math.min(stepsShown.b ?? steps.length - 1, steps.length - 1);
  const options = steps.map((s, i) => [i, String(s.number)]);
  const moments = element("div", { class: "choice", role: "group", "aria-label": "Compare" });
  choice(moments, [["end", "at their ends"], ["peak", "at their peaks"]], stepsShown.at, (at) => setSteps({ at }));
  const [from, to] = [momentOfStep(device, steps[a]), momentOfStep(device, steps[b])];
  view.append(heading("Step against step", select("from", options, a, (v) => setSteps({ a: v })),
    select("to", options, b, (v) => setSteps({ b: v })), moments), stepChart(view, device, a, b));
  drawGrowth(view, device, from, to);
}

function setSteps(change) {
  Object.assign(stepsShown, change);
  redrawTab();
}

function momentOfStep(device, step) {
  return stepsShown.at === "end" ? step.end : device.history.pyramid.highest(step.begin, step.end);
}

// The peak of every step and the bytes held after it. A click chooses the step to compare to.
function stepChart(view, device, a, b) {
  const { history, steps } = device;
  const peaks = steps.map((s) => history.allocated[history.pyramid.highest(s.begin, s.end)]);
  const after = steps.map((s) => history.allocated[s.end]);
  const last = steps.length - 1;
  const { svg, x, y } = lineChart(view, 150, last, d3.max(peaks), (i) => (i <= last ? `step ${steps[i].number}` : ""));
  for (const mark of [a, b])
    svg.append("line").attr("class", "cursor").attr("x1", x(mark)).attr("x2", x(mark))
      .attr("y1", y.range()[1]).attr("y2", y.range()[0]);
  for (const [name, values, below] of [["peak", peaks, -5], ["held after it", after, 14]]) {
    const kind = name === "peak" ? "peak" : "after";
    svg.append("path").attr("class", `${kind}-line`).attr("d", d3.line().x((_, i) => x(i)).y(y)(values));
    svg.append("text").attr("class", `${kind}-label`).attr("x", x(0) + 6).attr("y", y(values[0]) + below).text(name);
  }
  svg.on("click", listener((event) => setSteps({ b: Math.max(0, Math.min(last,
    Math.round(x.invert(pointerIn(event, svg.node())[0])))) })));
  return svg.node();
}

function drawGrowth(view, device, from, to) {
  const before = new Set(device.history.alive.at(from));
  const after = device.history.alive.at(to);
  const changes = new Growth(device);
  for (const b of before) changes.add(b, from, -1);
  for (const b of after) changes.add(b, to, 1);
  const change = device.history.allocated[to] - device.history.allocated[from];
  view.append(element("p", { class: "verdict", "data-change": change }, change === 0 ? "Both hold the same number of bytes."
    : [element("strong", {}, formatChange(change)), ` (${formatExact(change)} bytes)`]),
  element("div", { class: "columns" }, changes.tables()),
  newBlocks(device, unreplaced(device, before, after, from, to), to));
}

class Growth {
  constructor(device) {
    this.device = device;
    this.by = { role: new Map(), module: new Map(), op: new Map() };
  }

  add(b, i, sign) {
    const { device, by } = this;
    const e = device.lastEventOf(b, i);
    const bytes = sign * device.blocks.bytes[b];
    const keys = { role: report.roles[device.events.role[e]], module: device.moduleName(device.events.module[e]),
      op: device.opName(device.blocks.op[b]) };
    for (const [what, key] of Object.entries(keys)) by[what].set(key, (by[what].get(key) ?? 0) + bytes);
  }

  tables() {
    return Object.entries(this.by).map(([what, sums]) => {
      const rows = [...sums].filter(([, bytes]) => bytes).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 12);
      return element("table", { class: "growth" },
        element("thead", {}, element("tr", {},
          element("th", {}, `by ${what}`), element("th", { class: "number" }, "change"))),
        element("tbody", {}, rows.length ? rows.map(([key, bytes]) => element("tr", {},
          element("td", { class: "name" }, key), numberCell(bytesOf(bytes, formatChange))))
          : element("tr", {}, element("td", { colspan: 2, class: "zero" }, "nothing changed"))));
    });
  }
}

// The new blocks that do not replace an equal block. A gradient that was freed and allocated again is left out.
function unreplaced(device, before, after, from, to) {
  const { bytes, op } = device.blocks;
  const key = (b, i) => [device.roleOf(b, i), device.moduleOf(b, i), op[b], bytes[b]].join("|");
  const still = new Set(after);
  const gone = d3.rollup([...before].filter((b) => !still.has(b)), (blocks) => blocks.length, (b) => key(b, from));
  return after.filter((b) => {
    if (before.has(b)) return false;
    const predecessors = gone.get(key(b, to)) ?? 0;
    gone.set(key(b, to), predecessors - 1);
    return predecessors <= 0;
  });
}

// One row for each kind of block, because a leak leaves blocks of the same kind in every step.
function newBlocks(device, blocks, i) {
  if (blocks.length === 0) return note("There are no new blocks, except those that replaced equal ones.");
  const { bytes } = device.blocks;
  const kind = (b) => [device.titleOf(b), bytes[b], device.roleOf(b, i), byOfBlock(device, b)].join("|");
  const kinds = [...d3.group(blocks.sort((a, b) => a - b), kind).values()]
    .map((same) => [same, same.length * bytes[same[0]]]).sort(([a, aBytes], [b, bBytes]) => bBytes - aBytes || a[0] - b[0]);
  const labels = ["tensor", "blocks", "total", "role", "allocated in", "first"];
  return element("div", {}, element("h3", {}, formatCount(blocks.length, "new block")),
    element("table", { class: "new-blocks" },
      element("thead", {}, element("tr", {}, labels.map((label, c) =>
        element("th", { class: c === 1 || c === 2 ? "number" : "" }, label)))),
      element("tbody", {}, kinds.slice(0, 25).map(([same, total]) => newBlocksRow(device, same, total, i)))),
    kinds.length > 25 && note(`and ${formatExact(kinds.length - 25)} smaller kinds`));
}

function newBlocksRow(device, same, total, i) {
  const [b] = same;
  const role = device.roleOf(b, i);
  return element("tr", { "data-block": b, ...clickable(() => show({ pinned: b, hovered: null })) },
    element("td", { class: "name" }, device.titleOf(b)), numberCell(formatExact(same.length)), numberCell(bytesOf(total)),
    element("td", { class: "name" }, swatch(role), report.roles[role]),
    element("td", { class: "name" }, byOfBlock(device, b)),
    element("td", { class: "name" }, device.whenOf(device.blocks.born[b])));
}
