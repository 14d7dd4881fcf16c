// Bands under the timeline: the step, phase and module that ran. Sampled once per pixel, so that the cost does not
// depend on the zoom.

const BAND_HEIGHT = 18;
const BAND_GAP = 3;

function drawBands(timeline) {
  const { context } = timeline;
  context.font = `11px ${themeColor("--sans")}`;
  context.textBaseline = "middle";
  bandsOf(timeline.device, timeline.byTime).forEach((band, row) => {
    const top = MARGIN.top + PLOT_HEIGHT + 6 + row * (BAND_HEIGHT + BAND_GAP);
    context.fillStyle = themeColor("--soft-ink");
    context.textAlign = "right";
    context.fillText(bandName(band), MARGIN.left - 8, top + BAND_HEIGHT / 2);
    context.textAlign = "left";
    if (band === "module" && !timeline.device.isRecorded)
      context.fillText("only a recording says which module ran", MARGIN.left + 4, top + BAND_HEIGHT / 2);
    else if (band.title) context.fillText(band.title, MARGIN.left + 4, top + BAND_HEIGHT / 2);
    else for (const run of bandRuns(timeline, band)) drawBandRun(context, timeline.device, band, run, top);
  });
}

// Runs of neighbouring pixels with the same value.
function bandRuns(timeline, band) {
  const runs = [];
  for (const { x, width, value } of bandSamples(timeline, band)) {
    const last = runs[runs.length - 1];
    if (last && last.value === value) last.width += width;
    else runs.push({ x, width, value });
  }
  return runs;
}

// [{x, width, value}]. By time, the values come from the marks of scopes, which also change between events. By event,
// they come from the events.
function bandSamples(timeline, band) {
  const { columns, device, byTime, width, x } = timeline;
  if (!byTime || band === "step" || !device.scopes.time.length)
    return columns.map((c) => ({ x: c.x, width: c.width, value: device.main[band][c.from] }));
  return d3.range(Math.floor(width)).map((px) => {
    const time = x.invert(px + 0.5);
    if (isLane(band)) return { x: px, width: 1, value: workAt(device, band, time) };
    return { x: px, width: 1, value: scopeValue(device, band, d3.bisectRight(device.scopes.time, time) - 1) ||
      ownPhase(device, band, timeline.eventAt(time)) };
  });
}

// The phase outside all scopes. Within a step it is forward, which has no mark.
function ownPhase(device, band, i) { return band === "phase" && device.main.step[i] ? PHASE.forward : 0; }

function drawBandRun(context, device, band, { x, width, value }, top) {
  if (value === 0 && band !== "phase") return;  // outside steps, outside modules
  const gap = width > 4 ? 1 : 0;
  context.fillStyle = bandColor(device, band, value);
  context.fillRect(MARGIN.left + x, top, width - gap, BAND_HEIGHT);
  if (width < 12) return;
  const labels = bandLabels(device, band, value);
  const length = (text) => context.measureText(text).width;
  const number = band === "step" && length(labels[1]) < width ? labels[1] : null;  // even without a margin
  const label = labels.find((text) => length(text) <= width - 8) ?? number;
  if (!label) return;
  context.fillStyle = themeColor("--band-ink");
  context.fillText(label, MARGIN.left + x + Math.min(4, (width - length(label)) / 2), top + BAND_HEIGHT / 2);
}

const SHORT_PHASES = ["set", "data", "fwd", "bwd", "opt"];

// Labels of a run, the longest first. The first that fits is drawn.
function bandLabels(device, band, value) {
  if (band === "step") return [`step ${value}`, `${value}`];
  if (band === "phase") return [report.phases[value], SHORT_PHASES[value]];
  if (band === "op") return [device.names[value]];
  if (isLane(band)) return [nameOfWork(device, value - 1)];
  if (typeof band !== "string") return [value.split(".").pop()];
  const path = device.names[value].split(".");
  return path.map((_, from) => path.slice(from).join("."));
}

function bandColor(device, band, value) {
  if (band === "step") return themeColor(value % 2 ? "--band-odd" : "--band-even");
  if (band === "phase") return themeColor(`--phase-${value}`);
  if (isLane(band)) return bandColor(device, "op", device.work.op[value - 1]);
  if (band === "op") return themeColor(`--module-${hashOfName(device.names[value]) % MODULE_COLORS}`);
  const path = typeof band === "string" ? device.roots.paths[value] : value.split(".");
  return themeColor(`--module-${device.roots.colorOfPath(path)}`);
}

const MODULE_COLORS = 8;

// Modules are coloured by the first name at which their paths differ. If all are in one root, that is its children.
class RootModules {
  constructor(device) {
    this.paths = device.names.map((name) => name.split("."));
    const used = [...new Set(device.events.byModule)].filter(Boolean).map((id) => this.paths[id]);
    this.depth = 0;
    while (used.length > 1 && used.every((p) => p.length > this.depth + 1 && p[this.depth] === used[0][this.depth]))
      ++this.depth;
    this.colors = new Map();
    for (const path of used) this.colorOfPath(path);
  }

  colorOfPath(path) {
    const key = path.slice(0, this.depth + 1).join(".");
    if (!this.colors.has(key)) this.colors.set(key, this.colors.size % MODULE_COLORS);
    return this.colors.get(key);
  }
}
