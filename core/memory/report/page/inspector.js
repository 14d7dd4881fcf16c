// The panel beside the timeline: the event under the cursor, its levels, which are also the legend, and the block under
// the pointer or the pinned one.

// From the bottom; long-lived roles are below short-lived ones.
const STACK = [ROLE.parameter, ROLE.autocastCopy, ROLE.optimizerState, ROLE.keyValueCache, ROLE.gradient,
  ROLE.communication, ROLE.input, ROLE.saved, ROLE.temporary, ROLE.workspace];

function drawInspector(change) {
  const relevant = ["cursor", "pinned", "hovered", "run", "device"].some((key) => key in change);
  if (!relevant) return;
  const device = currentDevice();
  const i = app.hovered?.event ?? app.cursor;
  const b = app.hovered ? app.hovered.block : app.pinned;
  document.getElementById("inspector").replaceChildren(
    momentOf(device, i), legendOf(device, i),
    app.hovered?.band ? stretchCard(device, app.hovered.band) : b === NONE ? hint() : blockCard(device, b, i));
}

function hint() { return element("p", { class: "hint" }, "Point at the timeline to see a block. Click to pin it."); }

function momentOf(device, i) {
  const { events } = device;
  const where = [device.whenOf(i), device.names[events.byModule[i]], device.names[events.byOp[i]],
    device.isRecorded && formatTime(device.time[i])].filter(Boolean);
  return element("div", { class: "moment" },
    element("h2", {}, `Event ${formatExact(i)}`, i === device.history.peak && element("em", {}, "peak"),
      device.failures.includes(i) && element("em", { class: "failed" }, "failed")),
    element("p", {}, happened(device, i)),
    element("p", { class: "note" }, where.join(" · ")));
}

// One event in a few words.
function happened(device, i) {
  const { kind, target, role } = device.events;
  const b = device.blockOf[i];
  const size = b === NONE ? "" : formatBytes(device.blocks.bytes[b]);
  switch (kind[i]) {
    case KIND.alloc: return `${size} allocated as ${report.roles[role[i]]}`;
    case KIND.free: return `${size} of ${report.roles[role[i]]} freed`;
    case KIND.retag: return `${size} became ${report.roles[role[i]]}`;
    case KIND.hold: return `${size} saved for backward`;
    case KIND.drop: return `${size} released`;
    case KIND.segmentAlloc: return `segment of ${formatBytes(device.segments.bytes[target[i]])} taken from the system`;
    case KIND.segmentFree: return `segment of ${formatBytes(device.segments.bytes[target[i]])} returned to the system`;
    case KIND.stepBegin: return `step ${target[i]} began`;
    case KIND.stepEnd: return `step ${target[i]} ended`;
    case KIND.outOfMemory: return `out of memory: ${formatBytes(target[i])} requested`;
    case KIND.toDevice: return `${formatBytes(target[i])} copied to the device`;
    case KIND.toHost: return `${formatBytes(target[i])} copied to the host`;
    default: return "the host waited for the device";
  }
}

function legendOf(device, i) {
  const level = device.history.at(i);
  const row = (mark, label, bytes, extra) =>
    element("tr", { class: extra }, element("td", {}, mark, label), element("td", { class: "number" }, bytesOf(bytes)));
  return element("table", { class: "legend" }, element("tbody", {},
    row(element("i", { class: "line" }), "reserved", level[RESERVED], "total"),
    row("", "allocated", device.history.allocated[i], "total"),
    [...STACK].reverse().map((role) =>
      row(swatch(role), report.roles[role], level[role], level[role] === 0 && "zero"))));
}

function blockCard(device, b, i) {
  const { blocks } = device;
  const role = device.roleOf(b, Math.max(i, blocks.born[b]));
  const facts = [
    ["role", [swatch(role), report.roles[role]]],
    ["size", sizeText(device, b)],
    ["module", device.moduleName(device.moduleOf(b, Math.max(i, blocks.born[b])))],
    ["allocated by", `${device.opName(blocks.op[b])} (${device.whenOf(blocks.born[b])})`],
    ...keepers(device, b),
    [device.isRecorded ? "freed by" : "freed", freedText(device, b)],
    ["place", `segment ${device.segments.number[blocks.segment[b]]} at ${formatBytes(blocks.offset[b])}`],
  ];
  return element("div", { class: "block" },
    element("h2", {}, device.titleOf(b), b === app.pinned && element("em", {}, "pinned")),
    element("dl", {}, facts.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
}

function sizeText(device, b) {
  const { bytes, requested } = device.blocks;
  const rounding = bytes[b] - requested[b];
  return [bytesOf(bytes[b]), rounding ? ` (${formatBytes(rounding)} of it rounding)` : ""];
}

function keepers(device, b) {
  const saves = device.isRecorded ? savesOf(device, b) : [];
  if (saves.length === 0) return [];
  const names = [...new Set(saves.map((s) => byText(device, s.from)))];
  return [["saved for", `backward of ${listText(names, 3)}`]];
}

// "conv2d in net.conv1": the op and module of event i.
function byText(device, i) {
  const { byOp, byModule } = device.events;
  const op = device.names[byOp[i]];
  const module = device.names[byModule[i]];
  return [op || (module ? "" : "the program"), module && `${op ? "in " : ""}${quoted(module)}`].filter(Boolean).join(" ");
}

function freedText(device, b) {
  const at = device.blocks.died[b];
  if (!device.isRecorded) return at >= device.count ? "not yet" : device.whenOf(at);
  return at >= device.count ? "not yet" : `${byText(device, at)} (${device.whenOf(at)})`;
}

function listText(names, most) {
  const more = names.length - most;
  return names.slice(0, most).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
