// The work of a step's kernels, as C++ added it up: floating-point operations of products, bytes, and the least time that
// both take at the ceilings of the device. Steps of equal work share a table.

class WorkCounts {
  // `steps` are those of all devices, in the order of their ends.
  constructor(rows, steps) {
    this.rows = rows;
    this.steps = steps;
    this.end = sumsOf(steps.elapsed);
    this.byTable = d3.group(d3.range(rows.table.length), (i) => rows.table[i]);
  }

  // The rows of a step's table, or null if its work was not counted.
  ofStep(device, step) {
    const [begin, end] = [device.time[step.begin], device.time[step.end]];
    for (let s = d3.bisectLeft(this.end, begin); s < this.end.length && this.end[s] <= end; ++s)
      if (this.steps.step[s] === step.number && this.steps.stepDevice[s] === device.index)
        return this.byTable.get(this.steps.table[s]) ?? [];
    return null;
  }
}

// {rows, onGpu} of a step, or null. Rows are [{module, op, phase, flop, bytes, least}], where `least` is in nanoseconds, or
// null if the ceilings are not known.
function countsOfStep(device, step) {
  if (step.counts !== undefined) return step.counts;
  const { rows } = device.counts;
  const found = device.counts.ofStep(device, step);
  step.counts = found && {
    onGpu: found.some((i) => rows.isGpus[i]),
    rows: found.map((i) => ({ module: rows.module[i], op: rows.op[i], phase: rows.phase[i], flop: rows.flop[i], bytes: rows.bytes[i],
      least: rows.least[i] ? rows.least[i] - 1 : null })),
  };
  return step.counts;
}

const sumOfKnown = (a, b) => (a === null || b === null ? null : a + b);

// The time of a row's work: of the device, or of the host if all work of the step is the CPU's. 0: not known.
function workTimeOf(device, step, row) {
  if (deviceTimeOf(device, step)) return row.deviceTime;
  return countsOfStep(device, step)?.onGpu ? 0 : row.time;
}

// The columns of work in the table of times; none if the step's work was not counted.
function workColumns(device, step, rows) {
  if (!countsOfStep(device, step)) return [];
  const rate = (amount) => (r) => (r.workTime ? (1e9 * amount(r)) / r.workTime : 0);
  const share = (r) => (r.least && r.workTime ? r.least / r.workTime : 0);
  const column = (label, title, value) =>
    ({ label, title, number: true, value, cell: (r) => decimalOf(value(r)) });
  return [
    column("FLOP", "floating-point operations of products", (r) => r.flop),
    column("bytes", "bytes that the kernels must at least read and write", (r) => r.bytes),
    column("FLOP/s", "", rate((r) => r.flop)),
    column("bytes/s", "", rate((r) => r.bytes)),
    ...(rows.some(share) ? [{ label: "roofline", number: true, value: share,
      title: "the least time of the work at the ceilings of the device, as a share of its time",
      cell: (r) => (share(r) ? formatShare(share(r), 1) : "") }] : []),
  ];
}

// What is missing for rates and for the share of the roofline.
function workNotes(device, step) {
  const counts = countsOfStep(device, step);
  if (!counts) return [];
  if (counts.onGpu && !deviceTimeOf(device, step)) return [note("Rates need a step with device times.")];
  return counts.rows.some((r) => r.least === null) ? [note("The share of the roofline needs the device's ceilings. Build the target ceilings, and run bench/ceilings.")] : [];
}

// Three digits and a decimal prefix, as format_decimal() of bytetape-memory has them. The tooltip has all digits.
function decimalOf(value) {
  return element("span", { class: "decimal", "data-value": value, title: value ? formatExact(Math.round(value)) : "" }, formatDecimal(value));
}
function formatDecimal(value) {
  if (!(value > 0)) return "";
  let prefix = 0;
  for (; value >= 999.5 && prefix < 6; ++prefix) value /= 1000;
  return `${value.toFixed(prefix === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0)}${["", " k", " M", " G", " T", " P", " E"][prefix]}`;
}
