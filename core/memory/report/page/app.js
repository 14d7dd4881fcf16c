// The state of the page. show() changes it, and calls every part of the page with the change.

const app = { run: 0, device: 0, cursor: 0, hovered: null, axis: "event", tab: "modules" };
let report = null;
const parts = [];  // functions that are called with each change

function currentDevice() { return deviceOf(report.runs[app.run], app.device); }
function otherRun() { return report.runs[1 - app.run]; }

function show(change) {
  Object.assign(app, change);
  for (const part of parts) part(change);
}

// [[index, name]] of the devices with events. The others are not shown.
function shownDevices(run) {
  return run.devices.map((d, i) => [i, d.name]).filter(([i]) => run.devices[i].events.kind.count > 0);
}

function showRun(run) {
  const devices = shownDevices(report.runs[run]);
  const same = devices.find(([, name]) => name === currentDevice().name) ?? devices[0];
  showDevice(run, same[0]);
}

// `cursorOf(device)` returns the event to begin at; null: where the page opens.
function showDevice(run, device, cursorOf = () => null) {
  const shown = deviceOf(report.runs[run], device);
  show({ run, device, axis: shown.isRecorded ? app.axis : "event", cursor: cursorOf(shown) ?? openingOf(shown),
    pinned: NONE, hovered: null });
}

// By time, the flame chart of one step can be read.
function showAxis(axis) {
  show({ axis });
  const { begin, end } = stepHere(currentDevice()) ?? {};
  if (axis === "time" && begin !== undefined) app.timeline.showEvents(begin, end + 1);
}

// The program, and the file of its recording if both runs are of one program.
function runLabel(r) {
  const [a, b] = report.runs, { program, file } = report.runs[r], name = program || `run ${r + 1}`;
  if (!b || a.program !== b.program) return name;
  return `${name} (${file && a.file !== b.file ? file : "AB"[r]})`;
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
  choice(document.getElementById("axis"), axes, app.axis, (axis) => showAxis(axis));
  drawFacts();
}

// Marks the row of the pinned block.
function markPinned(change) {
  if (!("pinned" in change)) return;
  for (const row of document.querySelectorAll("#view tr[data-block]"))
    row.setAttribute("aria-selected", String(Number(row.dataset.block) === app.pinned));
}

function fact(label, value, note) {
  return element("div", { class: "fact" }, element("span", { class: "label" }, label),
    element("strong", {}, value), element("span", { class: "note" }, note));
}

// The key figures.
function drawFacts() {
  const device = currentDevice();
  const { history, header } = device;
  const level = history.at(history.peak);
  const last = history.at(device.count - 1);
  const reserved = reservedPeak(device);
  const atEnd = history.allocated[device.count - 1];
  const facts = [
    fact("peak allocated", bytesOf(history.allocated[history.peak]), device.whenOf(header.peak.reached)),
    largestFact(device),
    fact("peak reserved", bytesOf(reserved.bytes), limitText(device, reserved.event)),
    fact("rounding at the peak", bytesOf(history.allocated[history.peak] - level[REQUESTED]),
      `${formatShare(history.allocated[history.peak] - level[REQUESTED], history.allocated[history.peak])} of allocated`),
    !header.endedOutOfMemory && fact("held at the end", bytesOf(atEnd), `${formatBytes(last[RESERVED])} reserved`),
    fact(device.isRecorded ? "recorded" : "logged", formatCount(device.count, "event"),
      `${formatCount(device.steps.length, "step")}, ${formatCount(device.blocks.bytes.length, "block")}`),
  ];
  document.getElementById("facts").replaceChildren(...facts.filter(Boolean), ...warnings(device, atEnd));
}

function largestFact(device) {
  const [largest] = foldedHolders(device, device.history.peak);
  if (!largest) return null;
  const { holders, bytes } = largest;
  const [{ module, op, role }] = holders;
  const who = module ? `of ${quoted(device.names[module])}` : `by ${device.opName(op)}`;
  const others = holders.length > 1 ? ` and ${holders.length - 1} like it` : "";
  return fact("largest holder at the peak", bytesOf(bytes), `${report.roles[role]} ${who}${others}`);
}

// "limit 512 MiB"; with "then" if the limit was changed later.
function limitText(device, i) {
  const limit = device.limitAt(i);
  const text = limit == null ? "no limit" : `limit ${formatBytes(limit)}`;
  return device.limitAt(device.count) === limit ? text : `${text} then`;
}

// The peak of reserved bytes, and the first event that reaches it.
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

// Warnings about missing events.
function warnings(device, atEnd) {
  const { header } = device;
  const { complete, damage, fromLedgers } = report.runs[app.run];
  const text = [
    fromLedgers && "This report comes from the ledgers' logs. They do not have times, nor who freed a block or saved it " +
      "for backward. A memory::Recording has all of these.",
    damage && `The recording is damaged, and events after the damage are missing: ${damage}.`,
    !complete && !damage && "The recording was not finished, and later events are missing.",
    survivedText(device),
    header.dropped && `${formatExact(header.dropped)} events are missing, because the log was full.`,
    header.end && header.end.allocated.current !== atEnd &&
      `At the end ${formatExact(header.end.allocated.current)} bytes are allocated, but the events add up to ${formatExact(atEnd)}.`,
    header.unmatched && `${formatExact(header.unmatched)} events belong to blocks whose allocation was not logged.`,
  ].filter(Boolean);
  return text.map((t) => element("p", { class: "warning" }, t));
}

// The system's theme, which applies until the button is used.
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  themeColors.clear();
  show({ theme });
}
function toggleTheme() { setTheme(app.theme === "dark" ? "light" : "dark"); }
function followSystem() { setTheme(systemIsDark.matches ? "dark" : "light"); }

// Shows a text instead of the views.
function say(text) { document.querySelector("main").replaceChildren(element("p", { class: "empty" }, text)); }

async function start() {
  followSystem();
  document.getElementById("theme").addEventListener("click", toggleTheme);
  document.getElementById("help").addEventListener("click", toggleAbout);
  systemIsDark.addEventListener("change", followSystem);
  report = await readReport();
  if (firstRun() < 0) {
    const unmatched = d3.sum(report.runs.flatMap((run) => run.devices), (device) => device.unmatched);
    say(unmatched
      ? `Nothing can be shown: ${formatExact(unmatched)} events belong to blocks whose allocation was not logged. Use a memory::Recording.`
      : "Nothing was recorded.");
    document.documentElement.dataset.drawn = "true";
    return;
  }
  drawAdvice();
  app.timeline = new Timeline(document.getElementById("plot"));
  parts.push(drawTop, drawBanner, app.timeline.update, drawInspector, drawTab, markPinned, writePlace);
  showPlace();
  addEventListener("hashchange", showPlace);
  document.documentElement.dataset.drawn = "true";
}

window.addEventListener("DOMContentLoaded", () => start().catch((error) => {
  say(`This page cannot be shown: ${error.message}`);
  throw error;
}));
