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
  const peak = deviceOf(report.runs[run], device).history.peak;
  show({ run, device, cursor: peak, pinned: NONE, hovered: null });
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
  choice(document.getElementById("axis"), [["event", "by event"], ["time", "by time"]], app.axis,
    (axis) => show({ axis }));
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
  const reserved = highestReserved(device);
  const atEnd = history.allocated[device.count - 1];
  const facts = [
    fact("peak allocated", bytesOf(history.allocated[history.peak]), device.whenOf(history.peak)),
    fact("peak reserved", bytesOf(reserved), header.limit == null ? "no limit" : `of ${formatBytes(header.limit)}`),
    fact("rounding at the peak", bytesOf(history.allocated[history.peak] - level[REQUESTED]),
      `${formatShare(history.allocated[history.peak] - level[REQUESTED], history.allocated[history.peak])} of it`),
    fact("held at the end", bytesOf(atEnd), `${formatBytes(last[RESERVED])} reserved`),
    fact("recorded", formatCount(device.count, "event"),
      `${formatCount(device.steps.length, "step")}, ${formatCount(device.blocks.bytes.length, "block")}`),
  ];
  document.getElementById("facts").replaceChildren(...facts, ...warnings(device, atEnd));
}

function highestReserved(device) {
  let [reserved, highest] = [0, 0];
  const { kind, target } = device.events;
  for (let i = 0; i < device.count; ++i) {
    if (kind[i] === KIND.segmentAlloc) reserved += device.segments.bytes[target[i]];
    if (kind[i] === KIND.segmentFree) reserved -= device.segments.bytes[target[i]];
    highest = Math.max(highest, reserved);
  }
  return highest;
}

// What the figures leave out.
function warnings({ header, failures }, atEnd) {
  const text = [
    !report.runs[app.run].complete && "The recording was not finished: what came after its last event is not here.",
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
