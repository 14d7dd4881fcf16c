// Two runs: where the times of their steps differ.

// The steps after the first that count: those with times of the device, or all.
function countedSteps(device, ofDevice) {
  const timed = wholeSteps(device);
  return ofDevice ? splitByDevice(device)[0] : timed.slice(timed.length > 1 ? 1 : 0);
}

// The mean time of an op in the counted steps, by name and phase: of the device, or of the host.
function meanTimes(device, ofDevice) {
  const means = (device.meanTimes ??= new Map());
  if (means.has(ofDevice)) return means.get(ofDevice);
  const steps = countedSteps(device, ofDevice);
  const sums = new Map();
  for (const step of steps)
    for (const { name, phase, time, deviceTime } of groupedTimes(device, stepTimes(device, step), "op"))
      sums.set(`${name}|${phase}`, (sums.get(`${name}|${phase}`) ?? 0) + (ofDevice ? deviceTime : time) / steps.length);
  means.set(ofDevice, sums);
  return sums;
}

// The largest differences in time between two runs, a step: of the device if both runs have its times.
function timesOfRuns(a, b, labels) {
  const hasTimes = (d) => d.isRecorded && !d.header.name.startsWith("meta") && d.steps.length > 0;
  if (!hasTimes(a) || !hasTimes(b)) return null;
  const ofDevice = [a, b].every((d) => splitByDevice(d)[0].length > 0);
  const [x, y] = [meanTimes(a, ofDevice), meanTimes(b, ofDevice)];
  const rows = [...new Set([...x.keys(), ...y.keys()])].map((key) => [key, x.get(key) ?? 0, y.get(key) ?? 0])
    .sort((p, q) => Math.abs(q[2] - q[1]) - Math.abs(p[2] - p[1])).slice(0, 12);
  const whole = (d) => d3.mean(countedSteps(d, ofDevice), (s) => (ofDevice ? deviceTimeOf(d, s).span : timeOfStep(d, s)));
  const row = ([key, p, q], kind) => element("tr", { class: kind }, element("td", { class: "name" }, key.split("|").join(" ")),
    numberCell(timeOf(p)), numberCell(timeOf(q)), numberCell(timeChange(q - p)));
  return element("table", { class: "run-times" },
    element("thead", {}, element("tr", {}, element("th", {}, ofDevice ? "time of the device, a step" : "time, a step"),
      [...labels, "difference"].map((l) => element("th", { class: "number" }, l)))),
    element("tbody", {}, rows.map((r) => row(r)),
      row([ofDevice ? "all, with gaps" : "all", whole(a), whole(b)], "total")));
}
