// What is shown, and whoever shows it: a change goes through show(), which tells every part.

const app = { run: 0, device: 0, cursor: 0, hovered: null, axis: "event", tab: "phases" };
let report = null;
const parts = [];  // called with what changed

function currentDevice() { return deviceOf(report.runs[app.run], app.device); }
function otherRun() { return report.runs[1 - app.run]; }

function show(change) {
  Object.assign(app, change);
  for (const part of parts) part(change);
}

// A device that nothing was recorded of shows nothing.
function shownDevices(run) {
  return run.devices.map((d, i) => [i, d.name]).filter(([i]) => run.devices[i].events.kind.count > 0);
}

function showRun(run) {
  const devices = shownDevices(report.runs[run]);
  const same = devices.find(([, name]) => name === currentDevice().name) ?? devices[0];
  showDevice(run, same[0]);
}

function showDevice(run, device) {
  const { history, isRecorded } = deviceOf(report.runs[run], device);
  show({ run, device, axis: isRecorded ? app.axis : "event", cursor: history.peak, pinned: NONE, hovered: null });
}

function runLabel(r) {
  const name = report.runs[r].program || `run ${r + 1}`;
  return report.runs.length > 1 && report.runs[0].program === report.runs[1].program ? `${name} (${"AB"[r]})` : name;
}

function drawTop(change) {
  if (!("run" in change || "device" in change || "axis" in change)) return;
  document.getElementById("program").textContent = `Memory of ${report.runs[app.run].program || "a run"}`;
  document.title = document.getElementById("program").textContent;
  choice(document.getElementById("runs"), report.runs.map((_, r) => [r, runLabel(r)]).filter(([r]) => shownDevices(report.runs[r]).length > 0), app.run,
    showRun);
  choice(document.getElementById("devices"), shownDevices(report.runs[app.run]), app.device,
    (device) => showDevice(app.run, device));
  const axes = [["event", "by event"], ["time", "by time"]].slice(0, currentDevice().isRecorded ? 2 : 1);
  choice(document.getElementById("axis"), axes, app.axis, (axis) => show({ axis }));
  drawFacts();
}

function fact(label, value, note) {
  return element("div", { class: "fact" }, element("span", { class: "label" }, label),
    element("strong", {}, value), element("span", { class: "note" }, note));
}

// The figures that one asks for first.
function drawFacts() {
  const device = currentDevice();
  const { history, header } = device;
  const level = history.at(history.peak);
  const last = history.at(device.count - 1);
  const reserved = reservedPeak(device);
  const atEnd = history.allocated[device.count - 1];
  const facts = [
    fact("peak allocated", bytesOf(history.allocated[history.peak]), device.whenOf(header.peak.reached)),
    fact("peak reserved", bytesOf(reserved.bytes), limitText(device, reserved.event)),
    fact("rounding at the peak", bytesOf(history.allocated[history.peak] - level[REQUESTED]),
      `${formatShare(history.allocated[history.peak] - level[REQUESTED], history.allocated[history.peak])} of it`),
    fact("held at the end", bytesOf(atEnd), `${formatBytes(last[RESERVED])} reserved`),
    fact(device.isRecorded ? "recorded" : "logged", formatCount(device.count, "event"),
      `${formatCount(device.steps.length, "step")}, ${formatCount(device.blocks.bytes.length, "block")}`),
  ];
  document.getElementById("facts").replaceChildren(...facts, ...warnings(device, atEnd));
}

// "of 512 MiB", with a word where another limit was set later.
function limitText(device, i) {
  const limit = device.limitAt(i);
  const text = limit == null ? "no limit" : `of ${formatBytes(limit)}`;
  return device.limitAt(device.count) === limit ? text : `${text} then`;
}

// The most that is reserved, and the first event after which it is.
function reservedPeak(device) {
  let reserved = 0;
  const peak = { bytes: 0, event: 0 };
  const { kind, target } = device.events;
  for (let i = 0; i < device.count; ++i) {
    if (kind[i] === KIND.segmentAlloc) reserved += device.segments.bytes[target[i]];
    if (kind[i] === KIND.segmentFree) reserved -= device.segments.bytes[target[i]];
    if (reserved > peak.bytes) Object.assign(peak, { bytes: reserved, event: i });
  }
  return peak;
}

// What the figures leave out.
function warnings({ header, failures }, atEnd) {
  const { complete, damage, fromLedgers } = report.runs[app.run];
  const text = [
    fromLedgers && "This is what the ledgers keep of themselves: without times, and without who freed a block or kept it " +
      "for backward. A memory::Recording has those.",
    damage && `The recording is damaged, and what comes after that is not here: ${damage}.`,
    !complete && !damage && "The recording was not finished: what came after its last event is not here.",
    failures.length > 0 && `${formatCount(failures.length, "request")} could not be met: red in the picture.`,
    header.dropped && `${formatExact(header.dropped)} events were not kept.`,
    header.end && header.end.allocated.current !== atEnd &&
      `The books say ${formatExact(header.end.allocated.current)} bytes at the end, the events ${formatExact(atEnd)}.`,
    header.unmatched && `${formatExact(header.unmatched)} events mean blocks whose beginning was not kept.`,
  ].filter(Boolean);
  return text.map((t) => element("p", { class: "warning" }, t));
}

function drawAdvice() {
  const place = document.getElementById("advice");
  place.hidden = report.advice.length === 0;
  place.replaceChildren(element("h2", {}, "Advice"), element("ul", {}, report.advice.map((a) => element("li", {}, a))));
}

// The system's theme, until the button chose one.
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  themeColors.clear();
  show({ theme });
}
function toggleTheme() { setTheme(app.theme === "dark" ? "light" : "dark"); }
function followSystem() { setTheme(systemIsDark.matches ? "dark" : "light"); }

// In place of all that would be shown.
function say(text) { document.querySelector("main").replaceChildren(element("p", { class: "empty" }, text)); }

async function start() {
  followSystem();
  document.getElementById("theme").addEventListener("click", toggleTheme);
  systemIsDark.addEventListener("change", followSystem);
  report = await readReport();
  const first = report.runs.findIndex((run) => shownDevices(run).length > 0);
  if (first < 0) {
    const unmatched = d3.sum(report.runs.flatMap((run) => run.devices), (device) => device.unmatched);
    say(unmatched
      ? `Nothing can be shown: ${formatExact(unmatched)} events mean blocks whose beginning was not kept. A memory::Recording keeps it.`
      : "Nothing was recorded.");
    document.documentElement.dataset.drawn = "true";
    return;
  }
  drawAdvice();
  app.timeline = new Timeline(document.getElementById("plot"));
  parts.push(drawTop, app.timeline.update, drawInspector, drawTab);
  showDevice(first, shownDevices(report.runs[first])[0][0]);
  document.documentElement.dataset.drawn = "true";
}

window.addEventListener("DOMContentLoaded", () => start().catch((error) => {
  say(`This page cannot be shown: ${error.message}`);
  throw error;
}));
