// Two runs: where the times and the work of their steps differ.

// The steps after the first that count: those with times of the device, or all.
function countedSteps(device, ofDevice) {
  const timed = wholeSteps(device);
  return ofDevice ? splitByDevice(device)[0] : timed.slice(timed.length > 1 ? 1 : 0);
}

const NO_TIMES = { time: 0, flop: 0, bytes: 0 };

// The mean {time, flop, bytes} of an op in the counted steps, by name and phase. The time is of the device, or of the host.
function meanTimes(device, ofDevice) {
  const means = (device.meanTimes ??= new Map());
  if (means.has(ofDevice)) return means.get(ofDevice);
  const steps = countedSteps(device, ofDevice);
  const sums = new Map();
  for (const step of steps)
    for (const { name, phase, time, deviceTime, flop, bytes } of groupedTimes(device, stepTimes(device, step), "op")) {
      const key = `${name}|${phase}`, sum = sums.get(key) ?? NO_TIMES, n = steps.length;
      sums.set(key, { time: sum.time + (ofDevice ? deviceTime : time) / n, flop: sum.flop + flop / n, bytes: sum.bytes + bytes / n });
    }
  means.set(ofDevice, sums);
  return sums;
}

// The columns of work, [{label, title, cell}]: one number, or both if the runs differ. None if a run's work was not counted.
function workOfRuns(a, b, ofDevice) {
  if (![a, b].every((d) => countedSteps(d, ofDevice).every((step) => countsOfStep(d, step)))) return [];
  const column = (label, title, of) => ({ label, title, cell: (p, q) => {
    const [before, after] = [p, q].map((r) => Math.round(of(r)));
    return before === after ? decimalOf(after)
      : element("span", { class: "differs" }, before ? decimalOf(before) : "0", " → ", after ? decimalOf(after) : "0");
  } });
  return [column("FLOP", "floating-point operations of products, a step", (r) => r.flop),
    column("bytes", "bytes that the kernels must at least read and write, a step", (r) => r.bytes)];
}

// The largest differences in time between two runs, a step: of the device if both runs have its times.
function timesOfRuns(a, b, labels) {
  const hasTimes = (d) => d.isRecorded && !d.header.name.startsWith("meta") && d.steps.length > 0;
  if (!hasTimes(a) || !hasTimes(b)) return null;
  const ofDevice = [a, b].every((d) => splitByDevice(d)[0].length > 0);
  const [x, y] = [meanTimes(a, ofDevice), meanTimes(b, ofDevice)];
  const rows = [...new Set([...x.keys(), ...y.keys()])].map((key) => [key, x.get(key) ?? NO_TIMES, y.get(key) ?? NO_TIMES])
    .sort((p, q) => Math.abs(q[2].time - q[1].time) - Math.abs(p[2].time - p[1].time)).slice(0, 12);
  const sum = (means, of) => d3.sum(means.values(), (r) => r[of]);
  const whole = (d, means) => ({ flop: sum(means, "flop"), bytes: sum(means, "bytes"),
    time: d3.mean(countedSteps(d, ofDevice), (s) => (ofDevice ? deviceTimeOf(d, s).span : timeOfStep(d, s))) });
  const work = workOfRuns(a, b, ofDevice);
  const row = ([key, p, q], kind) => element("tr", { class: kind }, element("td", { class: "name" }, key.split("|").join(" ")),
    numberCell(timeOf(p.time)), numberCell(timeOf(q.time)), numberCell(timeChange(q.time - p.time)),
    work.map((c) => numberCell(c.cell(p, q))));
  return element("table", { class: "run-times" },
    element("thead", {}, element("tr", {}, element("th", {}, ofDevice ? "time of the device, a step" : "time, a step"),
      [...labels, "difference"].map((l) => element("th", { class: "number" }, l)),
      work.map(({ label, title }) => element("th", { class: "number", title }, label)))),
    element("tbody", {}, rows.map((r) => row(r)),
      row([ofDevice ? "all, with gaps" : "all", whole(a, x), whole(b, y)], "total")));
}
