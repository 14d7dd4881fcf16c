// Compares two runs event by event, such as a prediction and a measurement.

function drawRuns(view, device) {
  const other = matchingDevice(otherRun(), device);
  if (!other) return view.append(note("The other run has no events."));
  const at = firstDifference(device, other, signature);
  const named = at < 0 ? firstDifference(device, other, namesOf) : at;
  const [a, b] = [runLabel(app.run), runLabel(1 - app.run)];
  const byAnother = named < 0 ? "" : ` Event ${formatExact(named)} is the first with another op or module.`;
  const verdict = at < 0
    ? `All ${formatExact(device.count)} events are equal: same blocks, same places, same roles, same order.${byAnother}`
    : `The first difference is event ${formatExact(at)}${at ? "; all events before it are equal" : ""}.`;
  view.append(heading("Run against run"), element("p", { class: "verdict", "data-first-difference": at }, verdict),
    runChart(view, device, other, [a, b]), element("div", { class: "columns" }, sumsTable(device, other, [a, b]),
      named >= 0 ? differenceTable(device, other, named, [a, b]) : null, timesOfRuns(device, other, [a, b])));
}

// The values of event i that must be equal: all but time, thread and names. Steps are counted from the run's first one,
// because a process does not restart its step numbers.
function signature(device, i) {
  const { kind, phase, step, role } = device.events;
  const count = step[i] && step[i] - (device.steps[0]?.number ?? step[i]) + 1;
  return [kind[i], phase[i], count, role[i], ...subjectOf(device, i)].join("|");
}

// The module and op of event i: "conv2 · conv2d".
function namesOf(device, i) {
  const b = device.blockOf[i];
  const op = b === NONE ? "" : device.names[device.blocks.op[b]];
  return [device.names[device.events.module[i]], op].filter(Boolean).join(" · ");
}

// The block or the segment of event i, or else the event's target.
function subjectOf({ events, blocks, segments, blockOf }, i) {
  const b = blockOf[i];
  const target = events.target[i];
  if (b !== NONE) {
    return [segments.number[blocks.segment[b]], blocks.offset[b], blocks.bytes[b], blocks.requested[b]];
  }
  switch (events.kind[i]) {
    case KIND.segmentAlloc:
    case KIND.segmentFree: return [segments.number[target], segments.bytes[target]];
    case KIND.stepBegin:
    case KIND.stepEnd: return [];
    default: return [target];
  }
}

// The first event at which `of` differs; -1: none.
function firstDifference(a, b, of) {
  const count = Math.min(a.count, b.count);
  for (let i = 0; i < count; ++i) if (of(a, i) !== of(b, i)) return i;
  return a.count === b.count ? -1 : count;
}

function sumsTable(a, b, labels) {
  const rows = [
    ["peak allocated", (d) => d.history.allocated[d.history.peak]],
    ["peak reserved", (d) => reservedPeak(d).bytes],
    ["held at the end", (d) => d.history.allocated[d.count - 1]],
    ...STACK.map((role) => [`${report.roles[role]} at the peak`, (d) => d.history.at(d.history.peak)[role]]),
  ].map(([label, f]) => [label, f(a), f(b)]).filter(([, x, y]) => x || y);
  return element("table", {},
    element("thead", {}, element("tr", {}, element("th", {}, ""), [...labels, "difference"].map((l) =>
      element("th", { class: "number" }, l)))),
    element("tbody", {}, rows.map(([label, x, y]) => element("tr", {}, element("td", {}, label),
      numberCell(bytesOf(x)), numberCell(bytesOf(y)), numberCell(x === y ? "equal" : bytesOf(y - x, formatChange)))),
    element("tr", {}, element("td", {}, "events"), numberCell(formatExact(a.count)), numberCell(formatExact(b.count)),
      numberCell(a.count === b.count ? "equal" : formatExact(b.count - a.count)))));
}

const CONTEXT = [3, 5];  // events shown before and after the first difference

function differenceTable(a, b, at, labels) {
  const rows = d3.range(Math.max(0, at - CONTEXT[0]), Math.min(Math.max(a.count, b.count), at + CONTEXT[1]));
  const text = (d, i) => (i < d.count ? [happened(d, i), namesOf(d, i)].filter(Boolean).join(" · ") : "");
  return element("table", {},
    element("thead", {}, element("tr", {}, ["event", ...labels].map((l) => element("th", {}, l)))),
    element("tbody", {}, rows.map((i) => element("tr", { class: i === at ? "differs" : "" },
      numberCell(formatExact(i)), [a, b].map((d) => element("td", { class: "name" }, text(d, i)))))));
}

// Both runs' allocated bytes by event, with the maximum of each pixel.
function runChart(view, a, b, labels) {
  const highest = d3.max([a, b], (d) => d.history.allocated[d.history.peak]);
  const { svg, x, y } = lineChart(view, 170, Math.max(a.count, b.count), highest, formatExact);
  [a, b].forEach((device, r) => svg.append("path").attr("class", r ? "peak-line" : "after-line")
    .attr("d", highestPerPixel(device, x, y)));
  return element("div", {}, svg.node(), element("p", { class: "key" },
    labels.map((label, r) => element("span", {}, element("i", { class: r ? "line peak" : "line after" }), label))));
}

function highestPerPixel(device, x, y) {
  const points = [];
  const [left, right] = x.range();
  for (let px = left; px < right; ++px) {
    const [first, last] = [Math.floor(x.invert(px)), Math.floor(x.invert(px + 1)) - 1];
    if (first >= device.count) break;
    const i = device.history.pyramid.highest(first, Math.min(device.count - 1, Math.max(first, last)));
    points.push([px, y(device.history.allocated[i])]);
  }
  return d3.line()(points);
}
