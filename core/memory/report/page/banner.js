// The request that ended the run out of memory: what the exception said, at the top of the page.

function drawBanner(change) {
  if (!("run" in change || "device" in change || "cursor" in change)) return;
  const device = currentDevice();
  const place = document.getElementById("banner");
  place.hidden = !device.header.endedOutOfMemory;
  if (!place.hidden) place.replaceChildren(...bannerOf(device));
}

function bannerOf(device) {
  const i = device.failures[device.failures.length - 1];
  const { missing, fits, verdict } = device.header.failures[device.failures.length - 1];
  const limit = device.limitAt(i);
  const [reserved, allocated] = [device.history.at(i)[RESERVED], device.history.allocated[i]];
  const figures = [["allocated", allocated], ["free, in pieces", reserved - allocated],
    ...(limit == null ? [] : [["not reserved", Math.max(0, limit - reserved)], ["limit", limit]]),
    ["missing", missing], ["the largest that fits", fits]];
  const [first, ...others] = verdict.split("\n");
  return [
    element("h2", {}, `Out of memory on ${device.name}: ${formatBytes(device.events.target[i])} requested by ${byText(device, i)}, `,
      device.whenOf(i)),
    element("p", {}, capitalised(first), ".", others.map((o) => ` ${capitalised(o)}.`)),
    element("div", { class: "facts" }, figures.map(([label, bytes]) => element("div", { class: "fact" },
      element("span", { class: "label" }, label), element("strong", {}, bytesOf(bytes))))),
    app.cursor !== i && element("button", { onclick: () => showEvent(device, i) }, "show the request"),
  ].filter(Boolean);
}

function capitalised(text) { return text.charAt(0).toUpperCase() + text.slice(1); }

function showEvent(device, cursor) {
  show({ cursor, pinned: NONE, hovered: null });
  app.timeline.showEvents(...windowOf(device, cursor));
}

// Requests that failed although the run went on: a sentence with a button.
function survivedText(device) {
  const { failures } = device;
  const count = failures.length - (device.header.endedOutOfMemory ? 1 : 0);
  if (count === 0) return null;
  return [`${formatCount(count, "request")} ran out of memory, and the run went on `,
    element("button", { onclick: () => showEvent(device, failures[count - 1]) }, "show the last one")];
}
