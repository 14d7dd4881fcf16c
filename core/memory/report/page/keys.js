// The keys of the timeline.

function timelineKey(timeline, event) {
  const { activeElement } = document;
  if (event.ctrlKey || event.metaKey || event.altKey || activeElement.closest("select, dialog")) return;
  const isHere = activeElement === document.body || timeline.root.contains(activeElement);
  if (event.key.length > 1 && event.key !== "Escape" && !isHere) return;  // arrows move within what has the focus
  const far = event.shiftKey ? 10 : 1;
  const actions = {
    ArrowLeft: () => timeline.moveTo(app.cursor - far),
    ArrowRight: () => timeline.moveTo(app.cursor + far),
    Home: () => timeline.moveTo(0),
    End: () => timeline.moveTo(timeline.device.count - 1),
    "[": () => timeline.moveTo(stepBefore(timeline.device, app.cursor)),
    "]": () => timeline.moveTo(stepAfter(timeline.device, app.cursor)),
    "+": () => timeline.zoomBy(2),
    "=": () => timeline.zoomBy(2),
    "-": () => timeline.zoomBy(0.5),
    ArrowUp: () => timeline.liftBy(1.5, timeline.centerOfLift()),
    ArrowDown: () => timeline.liftBy(1 / 1.5, timeline.centerOfLift()),
    0: () => timeline.showAll(),
    p: () => timeline.moveTo(timeline.device.history.peak),
    s: () => timeline.showEvents(...windowOf(timeline.device, app.cursor)),
    t: toggleTheme,
    i: toggleAbout,
    Escape: () => show({ pinned: NONE, hovered: null }),
  };
  if (!(event.key in actions)) return;
  actions[event.key]();
  event.preventDefault();
}

function stepBefore(device, i) { return device.steps.findLast((s) => s.begin < i)?.begin ?? 0; }
function stepAfter(device, i) { return device.steps.find((s) => s.begin > i)?.begin ?? device.count - 1; }
