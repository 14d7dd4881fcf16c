// Where the time of a step went: the op, module and phase of the training thread, from the marks of its scopes. These are
// times of the host. Steps that were timed on the device have its times too.

// `sort.by` is a column's label, or "most": the time of the device in a step that has it, else of the host.
const timesShown = { beside: null, by: "op", sort: { by: "most", reversed: false }, all: false };
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

// [{module, op, phase, calls, time, deviceTime, workTime, flop, bytes, least}] of a step. They add up to its time, to the time
// in which the device was busy, and to the work of its kernels (counts.js).
function stepTimes(device, step) {
  const { scopes, work } = device;
  const rows = new Map();
  const rowOf = (module, op, ownPhase) => {
    const phase = ownPhase || PHASE.forward;  // a step's own time
    const key = `${module}|${op}|${phase}`;
    if (!rows.has(key)) rows.set(key, { module, op, phase, calls: 0, time: 0, deviceTime: 0, flop: 0, bytes: 0, least: 0 });
    return rows.get(key);
  };
  eachStretch(device, step, (s, from, to) => {
    const row = s < 0 ? rowOf(0, 0, 0) : rowOf(scopes.module[s], scopes.op[s], scopes.phase[s]);
    row.time += to - from;
    if (from > device.time[step.begin]) row.calls += scopes.beginsOp[s];  // else it began before the step
  });
  for (const { i, time } of workOfStep(device, step)) rowOf(work.module[i], work.op[i], work.phase[i]).deviceTime += time;
  for (const { module, op, phase, flop, bytes, least } of countsOfStep(device, step)?.rows ?? []) {
    const row = rowOf(module, op, phase);
    Object.assign(row, { flop: row.flop + flop, bytes: row.bytes + bytes, least: sumOfKnown(row.least, least) });
  }
  for (const row of rows.values()) row.workTime = workTimeOf(device, step, row);
  return [...rows.values()];
}

// Rows of the same name and phase become one: [{name, phase, calls, time, deviceTime}]. Time between ops is one row, except by module.
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
    deviceTime: d3.sum(same, (r) => r.deviceTime), ...sumOfWork(same),
  }));
}

function sumOfWork(rows) {
  return { workTime: d3.sum(rows, (r) => r.workTime), flop: d3.sum(rows, (r) => r.flop), bytes: d3.sum(rows, (r) => r.bytes),
    least: rows.reduce((sum, r) => sumOfKnown(sum, r.least), 0) };
}

function timeOfStep(device, step) { return device.time[step.end] - device.time[step.begin]; }

function drawTimes(view, device) {
  const steps = device.steps;
  if (!device.isRecorded) return view.append(note("Only a recording has times: use a memory::Recording."));
  if (device.header.name.startsWith("meta")) return view.append(note("A prediction has no times: nothing was computed."));
  if (steps.length === 0) return view.append(note("No step was marked on this device with memory::Step."));
  const step = stepHere(device);
  const beside = timesShown.beside === null ? null : steps[timesShown.beside] ?? null;
  const options = steps.map((s, i) => [i, deviceTimeOf(device, s) ? `${s.number}, with device times` : String(s.number)]);
  const groupings = element("div", { class: "choice", role: "group", "aria-label": "Group" });
  choice(groupings, GROUPINGS, timesShown.by, (by) => setTimes({ by }));
  view.append(heading("Where time goes", select("step", options, steps.indexOf(step), (i) => goToStep(device, steps[i])),
    steps.length > 1 && select("beside", [[-1, "none"], ...options], beside ? steps.indexOf(beside) : -1,
      (i) => setTimes({ beside: i < 0 ? null : i, sort: { by: "most", reversed: false } })), groupings,
    app.axis !== "time" && element("button", { onclick: () => showAxis("time") }, "show the flame chart"),
    note(`${formatTime(timeOfStep(device, step))} of the host; the median step ${wholeSteps(device).length > 1 ? "after the first " : ""}took ${formatTime(medianTime(device))}`),
    deviceNotes(device, step), workNotes(device, step)));
  view.append(timesTable(device, step, beside));
}

function setTimes(change) {
  Object.assign(timesShown, change);
  redrawTab();
}

// The steps whose times count: those that ended, or all if none did.
function wholeSteps(device) {
  const whole = device.steps.filter((s) => s.isWhole);
  return whole.length ? whole : device.steps;
}
function medianTime(device) { return d3.median(laterSteps(device), (s) => timeOfStep(device, s)); }
// The whole steps without the first, which warms up. A single step stays.
function laterSteps(device) {
  const whole = wholeSteps(device);
  return whole.slice(whole.length > 1 ? 1 : 0);
}

// How busy the device was, and what its timing costs the host.
function deviceNotes(device, step) {
  const own = deviceTimeOf(device, step);
  const [timed, others] = splitByDevice(device);
  const median = (steps) => formatTime(d3.median(steps, (s) => timeOfStep(device, s)));
  return [
    own && note(`${formatTime(own.span)} of the device, busy for ${formatShare(own.busy, own.span)}`),
    timed.length > 0 && others.length > 0 && note(`${formatCount(timed.length, "step")} with device times: ` +
      `${median(timed)} of the host at the median, ${median(others)} without`),
  ];
}

// The whole steps after the first: those with device times, and the others.
function splitByDevice(device) {
  const later = laterSteps(device);
  return [later.filter((s) => deviceTimeOf(device, s)), later.filter((s) => !deviceTimeOf(device, s))];
}

// A measure of times: of the device if all these steps have it, else of the host.
function measureOf(device, steps) {
  const ofDevice = steps.every((s) => deviceTimeOf(device, s));
  return { ofDevice, of: ofDevice ? (r) => r.deviceTime : (r) => r.time,
    whole: (s) => (ofDevice ? deviceTimeOf(device, s).span : timeOfStep(device, s)) };
}

function timesTable(device, step, beside) {
  const times = (s) => groupedTimes(device, stepTimes(device, s), timesShown.by);
  const own = deviceTimeOf(device, step);
  const share = measureOf(device, [step]);
  const compared = measureOf(device, beside ? [step, beside] : [step]);
  const rows = times(step);
  const key = (r) => `${r.name}|${r.phase}`;
  const others = new Map((beside ? times(beside) : []).map((r) => [key(r), compared.of(r)]));
  for (const r of rows) r.other = others.get(key(r)) ?? 0;
  const besides = beside ? besideColumns(beside, compared) : [];
  const columns = [
    { label: timesShown.by === "module" ? "module" : "op", value: (r) => r.name, cell: (r) => r.name, class: "name" },
    { label: "phase", value: (r) => r.phase, cell: (r) => r.phase },
    { label: "calls", number: true, value: (r) => r.calls, cell: (r) => (r.calls ? formatExact(r.calls) : "") },
    { label: own ? "host" : "time", number: true, value: (r) => r.time, cell: (r) => timeOf(r.time) },
    ...(own && compared.ofDevice ? [] : besides),
    ...(own ? [{ label: "device", number: true, value: (r) => r.deviceTime, cell: (r) => timeOf(r.deviceTime) }] : []),
    ...(own && compared.ofDevice ? besides : []),
    { label: "share", number: true, value: share.of, cell: (r) => formatShare(share.of(r), share.whole(step)) },
  ];
  const ofWork = beside ? [] : workColumns(device, step, rows);  // a change is of times
  columns.push(...ofWork);
  const columnOf = (label) => columns.findIndex((c) => c.label === label);
  const chosen = columnOf(timesShown.sort.by);
  const sort = { by: chosen < 0 ? columnOf(own ? "device" : "time") : chosen, reversed: timesShown.sort.reversed };
  const resort = () => setTimes({ sort: { by: columns[sort.by].label, reversed: sort.reversed } });
  const shown = inOrder(rows, columns, sort).slice(0, timesShown.all || rows.length < TIME_ROWS + 5 ? rows.length : TIME_ROWS);
  columns.push({ label: "", value: share.of, class: "bar-lane", cell: (r) => element("i", {
    style: `width:${Math.max(0.2, (100 * share.of(r)) / share.whole(step))}%;background:var(--accent)` }) });
  const table = sortableTable(columns, shown, sort, resort);
  table.querySelector("tbody").append(...lastRows(device, step, beside, compared, rows, ofWork));
  return element("div", { class: "holders times" }, table, rows.length > shown.length &&
    element("button", { class: "more", onclick: () => setTimes({ all: true }) }, `show all ${formatExact(rows.length)}`));
}

// The device's gaps and the whole step.
function lastRows(device, step, beside, compared, rows, ofWork) {
  const own = deviceTimeOf(device, step);
  const calls = d3.sum(rows, (r) => r.calls);
  const whole = { ...sumOfWork(rows), time: timeOfStep(device, step), deviceTime: own?.span };
  whole.workTime = workTimeOf(device, step, whole);
  const besides = (of) => beside && [numberCell(timeOf(of(beside))), numberCell(timeChange(of(step) - of(beside)))];
  const empty = () => element("td", {});
  const row = (kind, name, count, host, ofDevice, besideCells, share, work) => element("tr", { class: kind },
    element("td", {}, name), empty(), count, host, !(own && compared.ofDevice) && besideCells, own && ofDevice,
    own && compared.ofDevice && besideCells, numberCell(share), ofWork.map((c) => (work ? numberCell(c.cell(work)) : empty())), empty());
  const idle = (s) => deviceTimeOf(device, s).idle;
  return [
    own && row("idle", "device idle", empty(), empty(), numberCell(timeOf(own.idle)),
      compared.ofDevice ? besides(idle) : beside && [empty(), empty()], formatShare(own.idle, own.span)),
    row("total", "the step", numberCell(formatExact(calls)), numberCell(timeOf(timeOfStep(device, step))),
      own && numberCell(timeOf(own.span)), besides(compared.whole), "100 %", whole),
  ].filter(Boolean);
}

function besideColumns(beside, { of }) {
  return [
    { label: `step ${beside.number}`, number: true, value: (r) => r.other, cell: (r) => timeOf(r.other) },
    { label: "change", number: true, value: (r) => of(r) - r.other, cell: (r) => timeChange(of(r) - r.other) },
  ];
}

// A time. The tooltip has the exact one.
// No time is blank.
function timeOf(ns) {
  return element("span", { class: "time", "data-ns": ns, title: `${formatExact(ns)} ns` }, ns ? formatTime(ns) : "");
}
function timeChange(ns) { return ns > 0 ? `+${formatTime(ns)}` : formatTime(ns).replace("-", "−"); }
