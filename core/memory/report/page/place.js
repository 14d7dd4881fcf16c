// The place that the page shows, which the URL's hash names: "#view=modules&step=12&event=590". The address can be sent
// to somebody, and opens at the same place.

// The step of event i with its neighbours: [first event, event after the last]; the whole run if i is outside of steps.
function windowOf(device, i) {
  const { steps } = device;
  const at = steps.findIndex(({ begin, end }) => begin <= i && i <= end);
  if (at < 0) return [0, device.count];
  const [first, last] = [steps[Math.max(0, at - 1)].begin, steps[Math.min(steps.length - 1, at + 1)].end + 1];
  return [first, Math.min(last, endOfRun(device, first))];
}

// The run ends with the request that ended it out of memory. A few of the frees that follow are shown.
function endOfRun(device, first) {
  if (!device.header.endedOutOfMemory) return device.count;
  const failure = device.failures[device.failures.length - 1];
  return Math.min(device.count, failure + 1 + Math.ceil((failure - first) / 20));
}

// The event at which the page opens: the request that ended the run out of memory, or the peak.
function openingOf(device) {
  return device.header.endedOutOfMemory ? device.failures[device.failures.length - 1] : device.history.peak;
}

function hashOf() {
  const device = currentDevice();
  const place = new URLSearchParams({ view: app.tab });
  if (report.runs.length > 1) place.set("run", app.run + 1);
  if (shownDevices(report.runs[app.run]).length > 1) place.set("device", device.name);
  if (app.axis !== "event") place.set("axis", app.axis);
  const step = device.events.step[app.cursor];
  if (step) place.set("step", step);
  place.set("event", app.cursor);
  const [from, to] = app.timeline.eventsInView();
  const [first, end] = windowOf(device, app.cursor);
  if (Math.abs(from - first) > 1 || Math.abs(to - end) > 1) {
    place.set("from", from);
    place.set("to", to);
  }
  return `#${place}`;
}

// Names the place shortly after it changed, because browsers refuse an address that changes many times a second.
let placeTimer = null;
function writePlace() {
  clearTimeout(placeTimer);
  placeTimer = setTimeout(() => {
    try {
      if (location.hash !== hashOf()) history.replaceState(null, "", hashOf());
    } catch { /* a frame without an address of its own */ }
  }, 250);
}

// A whole number of the hash below `end`; null if there is none.
function numberIn(place, name, end) {
  const value = /^\d+$/.test(place.get(name) ?? "") ? Number(place.get(name)) : end;
  return value < end ? value : null;
}

// Shows the place that the hash names. What it does not name, or names wrongly, is as when the page opens.
function showPlace() {
  const place = new URLSearchParams(location.hash.slice(1));
  const run = (numberIn(place, "run", report.runs.length + 1) ?? 0) - 1;
  const chosen = report.runs[run] && shownDevices(report.runs[run]).length ? run : firstRun();
  const devices = shownDevices(report.runs[chosen]);
  const [device] = devices.find(([, name]) => name === place.get("device")) ?? firstDevice(chosen);
  app.tab = (TABS.find(({ id, needsTwo }) => id === place.get("view") && !(needsTwo && report.runs.length < 2)) ?? TABS[0]).id;
  app.axis = place.get("axis") === "time" ? "time" : "event";
  showDevice(chosen, device, (shown) => eventIn(shown, place));
  const from = numberIn(place, "from", currentDevice().count);
  const to = numberIn(place, "to", currentDevice().count + 1);
  if (from !== null && to > from) app.timeline.showEvents(from, to);
}

// The event that the hash names; if that is not in the step it names, the highest of this step.
function eventIn(device, place) {
  const event = numberIn(place, "event", device.count);
  const isInStep = !place.has("step") || (event !== null && String(device.events.step[event]) === place.get("step"));
  return isInStep ? event : eventOfStep(device, place.get("step"));
}

// The step at the cursor, else that of the peak.
function stepHere(device) {
  return device.steps.findLast((s) => s.begin <= app.cursor && app.cursor <= s.end) ?? stepOfPeak(device);
}

// Moves the cursor to the highest event of a step.
function goToStep(device, { begin, end }) { showEvent(device, device.history.pyramid.highest(begin, end)); }

// The highest event of a step, given by its number; null if there is no such step.
function eventOfStep(device, number) {
  const step = device.steps.find((s) => String(s.number) === number);
  return step ? device.history.pyramid.highest(step.begin, step.end) : null;
}

function firstRun() { return report.runs.findIndex((run) => shownDevices(run).length > 0); }

// [index, name] of the device that ran out of memory, else of the first one.
function firstDevice(run) {
  const devices = shownDevices(report.runs[run]);
  return devices.find(([i]) => report.runs[run].devices[i].endedOutOfMemory) ?? devices[0];
}
