// Where the time of a step went: the op, module and phase of the training thread, from the marks of its scopes. These are
// times of the host.

const timesShown = { beside: null, by: "op", sort: { by: 3, reversed: false }, all: false };
const TIME_ROWS = 12;
const GROUPINGS = [["op", "by op"], ["module", "by module"], ["call", "by op and module"]];

// Calls visit(scope, from, to) for each stretch of a step: `scope` is an index into device.scopes, or -1.
function eachStretch(device, step, visit) {
  const { time } = device.scopes;
  const [begin, end] = [device.time[step.begin], device.time[step.end]];
  let scope = d3.bisectRight(time, begin) - 1;
  for (let from = begin; from < end; ++scope) {
    const to = Math.min(end, scope + 1 < time.length ? time[scope + 1] : end);
    visit(scope, from, to);
    from = to;
  }
}

// [{module, op, phase, calls, time}] of a step. They add up to its time.
function stepTimes(device, step) {
  const { scopes } = device;
  const rows = new Map();
  eachStretch(device, step, (s, from, to) => {
    const [module, op] = s < 0 ? [0, 0] : [scopes.module[s], scopes.op[s]];
    const phase = (s < 0 ? 0 : scopes.phase[s]) || PHASE.forward;  // a step's own time
    const key = `${module}|${op}|${phase}`;
    if (!rows.has(key)) rows.set(key, { module, op, phase, calls: 0, time: 0 });
    const row = rows.get(key);
    row.time += to - from;
    if (from > device.time[step.begin]) row.calls += scopes.beginsOp[s];  // else it began before the step
  });
  return [...rows.values()];
}

// Rows of the same name and phase become one: [{name, phase, calls, time}]. Time between ops is one row, except by module.
function groupedTimes(device, rows, by) {
  const nameOf = ({ module, op }) => {
    if (by === "module") return device.moduleName(module);
    if (!op) return "between ops";
    return by === "call" && module ? `${device.names[op]} in ${quoted(device.names[module])}` : device.names[op];
  };
  const phaseOf = ({ op, phase }) => (by !== "module" && !op ? "" : report.phases[phase]);
  const groups = d3.group(rows, (r) => `${nameOf(r)}|${phaseOf(r)}`);
  return [...groups.values()].map((same) => ({
    name: nameOf(same[0]), phase: phaseOf(same[0]), calls: d3.sum(same, (r) => r.calls), time: d3.sum(same, (r) => r.time),
  }));
}

function timeOfStep(device, step) { return device.time[step.end] - device.time[step.begin]; }

function drawTimes(view, device) {
  const steps = device.steps;
  if (!device.isRecorded) return view.append(note("Only a recording has times: use a memory::Recording."));
  if (device.header.name.startsWith("meta")) return view.append(note("A prediction has no times: nothing was computed."));
  if (steps.length === 0) return view.append(note("No step was marked on this device with memory::Step."));
  const step = stepHere(device);
  const beside = timesShown.beside === null ? null : steps[timesShown.beside] ?? null;
  const options = steps.map((s, i) => [i, String(s.number)]);
  const groupings = element("div", { class: "choice", role: "group", "aria-label": "Group" });
  choice(groupings, GROUPINGS, timesShown.by, (by) => setTimes({ by }));
  view.append(heading("Where time goes", select("step", options, steps.indexOf(step), (i) => goToStep(device, steps[i])),
    steps.length > 1 && select("beside", [[-1, "none"], ...options], beside ? steps.indexOf(beside) : -1,
      (i) => setTimes({ beside: i < 0 ? null : i, sort: { by: 3, reversed: false } })), groupings,
    app.axis !== "time" && element("button", { onclick: () => showAxis("time") }, "show the flame chart"),
    note(`${formatTime(timeOfStep(device, step))} of the host; the median step took ${formatTime(medianTime(device))}`)));
  view.append(timesTable(device, step, beside));
}

function setTimes(change) {
  Object.assign(timesShown, change);
  redrawTab();
}

// The steps whose times count: those that ended, or all if none did.
function timedSteps(device) {
  const whole = device.steps.filter((s) => s.isWhole);
  return whole.length ? whole : device.steps;
}
function medianTime(device) { return d3.median(timedSteps(device), (s) => timeOfStep(device, s)); }

function timesTable(device, step, beside) {
  const times = (s) => groupedTimes(device, stepTimes(device, s), timesShown.by);
  const rows = times(step);
  const key = (r) => `${r.name}|${r.phase}`;
  const others = new Map((beside ? times(beside) : []).map((r) => [key(r), r.time]));
  for (const r of rows) r.other = others.get(key(r)) ?? 0;
  const whole = timeOfStep(device, step);
  const columns = [
    { label: timesShown.by === "module" ? "module" : "op", value: (r) => r.name, cell: (r) => r.name, class: "name" },
    { label: "phase", value: (r) => r.phase, cell: (r) => r.phase },
    { label: "calls", number: true, value: (r) => r.calls, cell: (r) => (r.calls ? formatExact(r.calls) : "") },
    { label: "time", number: true, value: (r) => r.time, cell: (r) => timeOf(r.time) },
    ...(beside ? besideColumns(beside) : []),
    { label: "share", number: true, value: (r) => r.time, cell: (r) => formatShare(r.time, whole) },
  ];
  timesShown.sort.by = Math.min(timesShown.sort.by, columns.length - 1);
  const shown = inOrder(rows, columns, timesShown.sort).slice(0, timesShown.all || rows.length < TIME_ROWS + 5 ? rows.length : TIME_ROWS);
  columns.push({ label: "", value: (r) => r.time, class: "bar-lane", cell: (r) => element("i", {
    style: `width:${Math.max(0.2, (100 * r.time) / whole)}%;background:var(--accent)` }) });
  const table = sortableTable(columns, shown, timesShown.sort, redrawTab);
  table.querySelector("tbody").append(element("tr", { class: "total" }, element("td", {}, "the step"), element("td", {}),
    numberCell(formatExact(d3.sum(rows, (r) => r.calls))), numberCell(timeOf(whole)),
    beside && [numberCell(timeOf(timeOfStep(device, beside))), numberCell(timeChange(whole - timeOfStep(device, beside)))],
    numberCell("100 %"), element("td", {})));
  return element("div", { class: "holders times" }, table, rows.length > shown.length &&
    element("button", { class: "more", onclick: () => setTimes({ all: true }) }, `show all ${formatExact(rows.length)}`));
}

function besideColumns(beside) {
  return [
    { label: `step ${beside.number}`, number: true, value: (r) => r.other, cell: (r) => timeOf(r.other) },
    { label: "change", number: true, value: (r) => r.time - r.other, cell: (r) => timeChange(r.time - r.other) },
  ];
}

// A time. The tooltip has the exact one.
function timeOf(ns) {
  return element("span", { class: "time", "data-ns": ns, title: `${formatExact(ns)} ns` }, formatTime(ns));
}
function timeChange(ns) { return ns > 0 ? `+${formatTime(ns)}` : formatTime(ns).replace("-", "−"); }

// ---- two runs

// The mean time of an op in the steps after the first, by name and phase.
function meanTimes(device) {
  if (device.meanTimes) return device.meanTimes;
  const timed = timedSteps(device);
  const steps = timed.slice(timed.length > 1 ? 1 : 0);
  const sums = (device.meanTimes = new Map());
  for (const step of steps)
    for (const { name, phase, time } of groupedTimes(device, stepTimes(device, step), "op"))
      sums.set(`${name}|${phase}`, (sums.get(`${name}|${phase}`) ?? 0) + time / steps.length);
  return sums;
}

// The largest differences in time between two runs, a step.
function timesOfRuns(a, b, labels) {
  const hasTimes = (d) => d.isRecorded && !d.header.name.startsWith("meta") && d.steps.length > 0;
  if (!hasTimes(a) || !hasTimes(b)) return null;
  const [x, y] = [meanTimes(a), meanTimes(b)];
  const rows = [...new Set([...x.keys(), ...y.keys()])].map((key) => [key, x.get(key) ?? 0, y.get(key) ?? 0])
    .sort((p, q) => Math.abs(q[2] - q[1]) - Math.abs(p[2] - p[1])).slice(0, 12);
  const row = ([key, p, q], kind) => element("tr", { class: kind }, element("td", { class: "name" }, key.split("|").join(" ")),
    numberCell(timeOf(p)), numberCell(timeOf(q)), numberCell(timeChange(q - p)));
  return element("table", { class: "run-times" },
    element("thead", {}, element("tr", {}, element("th", {}, "time, a step"), [...labels, "difference"].map((l) =>
      element("th", { class: "number" }, l)))),
    element("tbody", {}, rows.map((r) => row(r)), row(["all", d3.sum(x.values()), d3.sum(y.values())], "total")));
}
