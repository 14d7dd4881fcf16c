// The request that ended the run out of memory: what the exception said, at the top of the page.

function drawBanner(change) {
  if (!("run" in change || "device" in change)) return;
  const device = currentDevice();
  const place = document.getElementById("banner");
  place.hidden = !device.header.endedOutOfMemory;
  if (!place.hidden) place.replaceChildren(...bannerOf(device, device.failures.length - 1));
}

function bannerOf(device, failure) {
  const i = device.failures[failure];
  const { missing, fits, verdict } = device.header.failures[failure];
  const limit = device.limitAt(i);
  const figure = (label, bytes) => element("div", { class: "fact" }, element("span", { class: "label" }, label),
    element("strong", {}, bytes == null ? "none" : bytesOf(bytes)));
  return [
    element("h2", {}, `Out of memory: ${formatBytes(device.events.target[i])} requested by ${byText(device, i)}`),
    element("p", { class: "note" }, `${device.whenOf(i)}: ${verdict.replace(/\n/g, "; ")}.`),
    element("div", { class: "facts" }, figure("limit", limit), figure("reserved", device.history.at(i)[RESERVED]),
      figure("allocated", device.history.allocated[i]), figure("missing", missing), figure("the largest that fits", fits)),
    element("button", { onclick: () => showEvent(device, i) }, "show the request"),
  ];
}

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
