// What devices did in the steps that were timed: kernels, copies and fills, with the op that launched each.

class DeviceWork {
  // `rows` are in the order of their begins.
  constructor(rows, devices = []) {
    Object.assign(this, rows);
    this.begin = sumsOf(rows.elapsed);
    this.count = this.begin.length;
    this.end = this.begin.map((begin, i) => begin + rows.time[i]);
    const streams = [...d3.group(d3.range(this.count), (i) => `${this.device[i]}|${this.stream[i]}`).values()]
      .sort((a, b) => b.length - a.length);
    const several = new Set(this.device).size > 1;
    const nameOf = (i) => (several ? `${devices[this.device[i]]?.name} ${this.stream[i]}` : `stream ${this.stream[i]}`);
    // [{name, stream, rows}], those with the most work first. Rows of a lane do not overlap.
    this.streams = streams.flatMap((rows, stream) => this.lanes(rows).map((lane, nth) =>
      ({ name: streams.length === 1 ? (nth ? "" : "device") : nth ? "" : nameOf(rows[0]), stream, rows: lane })));
  }

  // Work of a stream may begin before the previous one ends. It then goes to another lane, as in the export for Perfetto.
  // What finds no lane is in the last one.
  lanes(rows) {
    const lanes = [];
    for (const i of rows) {
      let lane = lanes.find((l) => l.free <= this.begin[i]);
      if (!lane && lanes.length < MOST_LANES) lanes.push((lane = { free: 0, rows: [] }));
      lane ??= lanes[MOST_LANES - 1];
      lane.rows.push(i);
      lane.free = Math.max(lane.free, this.end[i]);
    }
    return lanes.map((l) => l.rows);
  }
}

// [{i, time}] of a step: its work, and the part of its time in which none ran that began before.
function workOfStep(device, step) {
  if (!step.work) findWorkOfSteps(device);
  return step.work;
}

// The work of a step is that with its device and number; if several steps have the number, that of the last one that had
// begun.
function findWorkOfSteps(device) {
  const { steps, work } = device;
  const begins = (s) => device.time[steps[s].begin];
  const byNumber = d3.group(d3.range(steps.length), (s) => steps[s].number);
  for (const step of steps) step.work = [];
  for (let i = 0; i < work.count; ++i) {
    const same = work.stepDevice[i] === device.index && byNumber.get(work.step[i]);
    if (same) steps[same[Math.max(0, d3.bisector(begins).right(same, work.begin[i]) - 1)]].work.push({ i, time: 0 });
  }
  for (const step of steps) {
    let covered = 0;
    for (const row of step.work) {
      row.time = Math.max(0, work.end[row.i] - Math.max(work.begin[row.i], covered));
      covered = Math.max(covered, work.end[row.i]);
    }
  }
}

// {span, busy, idle} of a step on the device, or null if it was not timed.
function deviceTimeOf(device, step) {
  const all = workOfStep(device, step);
  if (!all.length) return null;
  const span = d3.max(all, ({ i }) => device.work.end[i]) - device.work.begin[all[0].i];
  const busy = d3.sum(all, (row) => row.time);
  return { span, busy, idle: span - busy };
}

function nameOfWork(device, i) { return device.names[device.work.name[i]] || report.workKinds[device.work.kind[i]]; }

// ---- the lanes below the flame chart

const MOST_LANES = 4;

// The lanes that are shown, and the number of streams that are not.
function lanesOf(device) {
  const { streams } = device.work;
  const shown = streams.slice(0, MOST_LANES);
  const all = new Set(streams.map((l) => l.stream)).size, hidden = all - new Set(shown.map((l) => l.stream)).size;
  return hidden ? [...shown, { name: `${hidden} more`, title: formatCount(hidden, "more stream"), rows: [] }] : shown;
}

// The row of a lane's work at a time, plus 1; 0: none.
function workAt(device, lane, time) {
  const { begin, end } = device.work;
  const at = d3.bisector((i) => begin[i]).right(lane.rows, time) - 1;
  return at >= 0 && time < end[lane.rows[at]] ? lane.rows[at] + 1 : 0;
}

function workCard(device, i) {
  const { work, names } = device;
  const facts = [
    ["time", timeOf(work.time[i])],
    names[work.op[i]] && ["op", names[work.op[i]]],
    names[work.module[i]] && ["module", names[work.module[i]]],
    ["phase", report.phases[work.phase[i] || PHASE.forward]],
    ["step", String(work.step[i])],
    work.bytes[i] > 0 && ["bytes", bytesOf(work.bytes[i])],
    ["stream", String(work.stream[i])],
    ["begins", formatTime(work.begin[i])],
  ].filter(Boolean);
  return element("div", { class: "block" }, element("h2", {}, nameOfWork(device, i)),
    element("dl", {}, facts.map(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])));
}
