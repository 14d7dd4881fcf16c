// The tabs under the timeline. One view is shown at a time.

const TABS = [
  { id: "modules", label: "Who holds it", draw: drawModules, follows: () => app.cursor },
  { id: "phases", label: "Phases", draw: drawPhases },
  { id: "saved", label: "Forward to backward", draw: drawSaved, follows: stepHere },
  { id: "reserved", label: "Reserved, not allocated", draw: drawSegments, follows: () => app.cursor },
  { id: "whole", label: "The whole device", draw: drawWaterfall, follows: () => app.cursor },
  { id: "times", label: "Where time goes", draw: drawTimes, follows: stepHere },
  { id: "steps", label: "Step against step", draw: drawSteps },
  { id: "runs", label: "Run against run", draw: drawRuns, needsTwo: true },
];

function drawTab(change) {
  const tab = TABS.find((t) => t.id === app.tab);
  if ("tab" in change || "run" in change) drawTabBar();
  const relevant = ["tab", "run", "device", "theme"].some((key) => key in change) ||
    (tab.follows && "cursor" in change && tab.follows(currentDevice()) !== tabShows);
  if (relevant) redrawTab();
}
let tabShows = null;  // the cursor or the step that the view follows

function redrawTab() {
  const tab = TABS.find((t) => t.id === app.tab);
  const view = document.getElementById("view");
  tabShows = tab.follows?.(currentDevice());
  view.setAttribute("aria-labelledby", `tab-${tab.id}`);
  keepFocus(view, () => {
    view.replaceChildren();
    tab.draw(view, currentDevice());
  });
}

function drawTabBar() {
  const tabs = TABS.filter((t) => !t.needsTwo || report.runs.length > 1);
  document.getElementById("tabs").replaceChildren(...tabs.map(({ id, label }) =>
    element("button", {
      id: `tab-${id}`, role: "tab", "aria-selected": String(id === app.tab), "aria-controls": "view",
      tabindex: id === app.tab ? 0 : -1, onclick: () => show({ tab: id }), onkeydown: (e) => tabKey(tabs, e),
    }, label)));
}

// The left and right arrow keys go from tab to tab.
function tabKey(tabs, event) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const at = tabs.findIndex((t) => t.id === app.tab);
  show({ tab: tabs[(at + by + tabs.length) % tabs.length].id });
  document.getElementById(`tab-${app.tab}`).focus();
}

function heading(title, ...beside) { return element("div", { class: "heading" }, element("h2", {}, title), ...beside); }
function note(...text) { return element("p", { class: "note" }, ...text); }

// "at the peak: event 1,234, forward, step 2"
function momentText(device) {
  const failed = device.failures.includes(app.cursor) && "at the request that failed: ";
  const where = failed || (app.cursor === device.history.peak ? "at the peak: " : "at ");
  return `${where}event ${formatExact(app.cursor)}, ${device.whenOf(app.cursor)}`;
}
