// Advice: sentences, some with a line of code to copy. The first is shown, the others on demand.

function drawAdvice() {
  const place = document.getElementById("advice");
  const [first, ...others] = report.advice.map(withoutOnlyDevice);
  place.hidden = false;
  if (!first) return place.replaceChildren(element("h2", {}, "Advice"), element("p", {}, whyNoAdvice()));
  const list = (texts) => element("ul", {}, texts.map(adviceItem));
  return place.replaceChildren(element("h2", {}, "Advice"), roomText(), list([first]), others.length > 0 &&
    element("details", {}, element("summary", {}, `${formatExact(others.length)} more`), list(others)) || "");
}

// Sentences begin with their device. It is left out if the page shows no other.
function withoutOnlyDevice(text) {
  const [run] = report.runs;
  const devices = shownDevices(run).map(([, name]) => `${name}: `);
  return devices.length === 1 && text.startsWith(devices[0]) ? text.slice(devices[0].length) : text;
}

// Says so if most of the limit is free, because saving memory costs time. A run that ended out of memory had none left.
function roomText() {
  const [first] = shownDevices(report.runs[0]);
  if (!first || report.runs[0].devices.some((d) => d.endedOutOfMemory)) return "";
  const shown = deviceOf(report.runs[0], first[0]);
  const { bytes, event } = reservedPeak(shown);
  const limit = shown.limitAt(event);
  if (limit == null || bytes > limit / 2) return "";
  const share = formatShare(bytes, limit).replace("<", "less than ");
  return element("p", { class: "note" }, `Memory is not short: ${share} of the limit of ${formatBytes(limit)} was reserved. `,
    "What lowers the peak costs time.");
}

function adviceItem(text) {
  const [sentence, ...code] = text.split("\n");
  return element("li", {}, sentence, code.length > 0 && codeToCopy(code.join("\n")));
}

function codeToCopy(code) {
  const text = element("code", {}, code);
  const button = element("button", { class: "copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(code);
      button.textContent = "copied";
    } catch {  // a browser may refuse it, as on a page from http
      getSelection().selectAllChildren(text);
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  } }, "copy");
  return element("span", { class: "code" }, text, button);
}

function whyNoAdvice() {
  const [run] = report.runs;
  if (run.fromLedgers) return "None: the ledgers' logs do not have the ops that save tensors. A memory::Recording has.";
  const devices = shownDevices(run).map(([i]) => deviceOf(run, i));
  if (devices.every((d) => d.steps.length === 0)) return "None: the program marked no step with memory::Step.";
  if (devices.every((d) => !d.events.phase.includes(PHASE.backward))) return "None: no step ran backward.";
  if (devices.every((d) => !d.steps.some((s) => s.isWhole))) return "None: no training step is complete.";
  return "None: no checkpoint lowers the peak by 1 % or more.";
}
