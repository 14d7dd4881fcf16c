// The flame chart by time: below the phase, a row for each level of the module's path, one for the op, and one for each
// stream of the device.

const MOST_LEVELS = 5;

// The bands below the chart, from the top: "step", "phase", then "module", or levels of modules, "op" and lanes of work.
function bandsOf(device, byTime) {
  if (!byTime || !device.scopes.time.length) return ["step", "phase", "module"];
  const depth = d3.max(device.scopes.usedModules, (id) => device.roots.paths[id].length) ?? 0;
  return ["step", "phase", ...d3.range(Math.min(depth, MOST_LEVELS)).map((level) => ({ level })), "op", ...lanesOf(device)];
}

function bandsHeight(timeline) { return bandsOf(timeline.device, timeline.byTime).length * (BAND_HEIGHT + BAND_GAP) + 4; }

// The same op has the same colour in every report.
function hashOfName(name) { return [...name].reduce((hash, c) => (hash * 31 + c.charCodeAt(0)) % 65521, 7); }

function bandName(band) { return typeof band === "string" ? band : isLane(band) ? band.name : band.level === 0 ? "module" : ""; }

function isLane(band) { return band.rows !== undefined; }

// The value of a band at a scope: a path for a level of modules.
function scopeValue(device, band, s) {
  if (s < 0) return 0;
  if (typeof band === "string") return device.scopes[band][s];
  const path = device.roots.paths[device.scopes.module[s]];
  return device.scopes.module[s] && path.length > band.level ? path.slice(0, band.level + 1).join(".") : 0;
}

// The stretch of time around scope s in which the band keeps its value: [from, to]. Of consecutive calls, one.
function stretchOf(device, band, s) {
  const { time } = device.scopes;
  const value = scopeValue(device, band, s);
  let [first, end] = [s, s + 1];
  while (first > 0 && scopeValue(device, band, first - 1) === value) --first;
  while (end < time.length && scopeValue(device, band, end) === value) ++end;
  return [time[first], end < time.length ? time[end] : device.time[device.count - 1]];
}

// The band and the scope at a point below the chart; null if there is none.
function bandUnder(timeline, [px, py]) {
  const { device, byTime } = timeline;
  const row = Math.floor((py - MARGIN.top - PLOT_HEIGHT - 6) / (BAND_HEIGHT + BAND_GAP));
  const band = bandsOf(device, byTime)[row];
  if (!byTime || row < 0 || band === undefined || band === "step") return null;
  const time = timeline.x.invert(px - MARGIN.left);
  if (isLane(band)) return workAt(device, band, time) ? { band, work: workAt(device, band, time) - 1 } : null;
  const scope = d3.bisectRight(device.scopes.time, time) - 1;
  if (scope < 0) return null;
  const own = ownPhase(device, band, timeline.eventAt(time));
  return scopeValue(device, band, scope) || own ? { band, scope, own, time } : null;
}

function stretchCard(device, { band, scope, own, time, work }) {
  if (isLane(band)) return workCard(device, work);
  const { module, op, phase } = device.scopes;
  const value = scopeValue(device, band, scope) || own;
  let [from, to] = stretchOf(device, band, scope);
  if (own) {  // a step's own phase has no mark
    const here = device.steps.findLast((s) => device.time[s.begin] <= time);
    [from, to] = [Math.max(from, device.time[here.begin]), Math.min(to, device.time[here.end])];
  }
  const title = band === "op" ? device.names[value] : band === "phase" ? report.phases[value] : value;
  const step = device.steps.find((s) => device.time[s.begin] <= from && from <= device.time[s.end]);
  const facts = [
    ["time", timeOf(to - from)],
    step && ["of the step", formatShare(to - from, timeOfStep(device, step))],
    band === "op" && module[scope] && ["module", device.names[module[scope]]],
    band !== "phase" && ["phase", report.phases[phase[scope] || PHASE.forward]],
    band !== "op" && op[scope] && ["op", device.names[op[scope]]],
    ["begins", formatTime(from)],
  ].filter(Boolean);
  return element("div", { class: "block" }, element("h2", {}, title),
    element("dl", {}, facts.map(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])));
}
