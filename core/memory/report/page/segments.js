// The bytes that are reserved but not allocated at the cursor, the reasons, and the place of every block.

const MAP_ROW = 16;
const MAP_GAP = 5;
const MAP_ROWS = 6;

function drawSegments(view, device) {
  const segments = segmentsAt(device, app.cursor);
  const sums = sumSegments(device, segments);
  view.append(heading("Reserved, not allocated", note(momentText(device)), peakButton(device)),
    reservedBar(sums), note("empty_cache() returns unused segments to the system. Free bytes in a segment with a block " +
      "in use stay reserved until that block is freed. Only requests that fit can use them."),
    segmentMap(view, device, segments));
  const stranded = segments.filter((s) => s.blocks.length && s.free > 0).sort((a, b) => b.free - a.free);
  if (stranded.length) view.append(strandedTable(device, stranded));
}

// [{number, bytes, free, blocks: in the order of their offsets}]
function segmentsAt(device, i) {
  const { segments, blocks, history } = device;
  const found = new Map();
  for (let s = 0; s < segments.bytes.length && segments.born[s] <= i; ++s)
    if (segments.died[s] > i)
      found.set(s, { number: segments.number[s], bytes: segments.bytes[s], free: segments.bytes[s], blocks: [] });
  for (const b of history.alive.at(i)) {
    const segment = found.get(blocks.segment[b]);
    segment.blocks.push(b);
    segment.free -= blocks.bytes[b];
  }
  for (const s of found.values()) s.blocks.sort((a, b) => blocks.offset[a] - blocks.offset[b]);
  return [...found.values()];
}

function sumSegments(device, segments) {
  const level = device.history.at(app.cursor);
  const allocated = device.history.allocated[app.cursor];
  return {
    reserved: level[RESERVED], asked: level[REQUESTED], rounding: allocated - level[REQUESTED],
    usable: d3.sum(segments, (s) => (s.blocks.length ? 0 : s.free)),
    stranded: d3.sum(segments, (s) => (s.blocks.length ? s.free : 0)),
  };
}

function reservedBar({ reserved, asked, rounding, usable, stranded }) {
  const parts = [
    ["requested", asked, "asked", "bytes that tensors and kernels requested"],
    ["rounding", rounding, "rounding", "blocks are multiples of 512 bytes, and large ones keep a remainder"],
    ["unused segments", usable, "usable", "segments without a block in use"],
    ["stranded", stranded, "stranded", "free bytes in segments with a block in use"],
  ];
  return element("div", { class: "split reserved" },
    element("div", { class: "split-bar", role: "img", "aria-label": "parts of the reserved bytes" },
      parts.filter(([, bytes]) => bytes).map(([label, bytes, kind]) => element("i",
        { class: kind, style: `flex-grow:${bytes}`, title: `${label}: ${formatExact(bytes)} bytes` }))),
    element("dl", {}, parts.map(([label, bytes, kind, why]) =>
      element("div", { class: bytes ? "" : "zero", title: why },
        element("dt", {}, element("i", { class: `swatch ${kind}` }), label),
        element("dd", {}, bytesOf(bytes), " ", element("small", {}, formatShare(bytes, reserved))))),
    element("div", {}, element("dt", {}, "reserved"), element("dd", {}, bytesOf(reserved)))));
}

// Segments in rows, each as wide as it is large.
function segmentMap(view, device, segments) {
  if (segments.length === 0) return note("No segment is reserved here.");
  const width = view.clientWidth;
  const total = d3.sum(segments, (s) => s.bytes);
  const perByte = Math.min(width / d3.max(segments, (s) => s.bytes), (width * MAP_ROWS) / total);
  const boxes = placeSegments(segments, perByte, width);
  const height = boxes[boxes.length - 1].y + MAP_ROW;
  const canvas = element("canvas", { class: "map", role: "img", "aria-label": "segments and the blocks in them" });
  const context = sizeCanvas(canvas, width, height);
  for (const box of boxes) drawSegment(context, device, box);
  const caption = element("p", { class: "note map-caption" }, "Point at a block to see its name.");
  canvas.addEventListener("mousemove", (event) => { caption.textContent = mapText(device, boxes, event); });
  canvas.addEventListener("click", (event) => {
    const block = blockInMap(device, boxes, event);
    if (block !== undefined) show({ pinned: block, hovered: null });
  });
  return element("div", { class: "map-place" },
    element("h3", {}, formatCount(segments.length, "segment")), canvas, caption);
}

function placeSegments(segments, perByte, width) {
  let [x, y] = [0, 0];
  return segments.map((segment) => {
    const w = Math.max(3, segment.bytes * perByte - 2);
    if (x > 0 && x + w > width + 1) [x, y] = [0, y + MAP_ROW + MAP_GAP];
    const box = { segment, x, y, width: w, perByte: w / segment.bytes };
    x += w + 2;
    return box;
  });
}

function drawSegment(context, device, { segment, x, y, width, perByte }) {
  context.fillStyle = themeColor(segment.blocks.length ? "--stranded" : "--usable");
  context.fillRect(x, y, width, MAP_ROW);
  for (const b of segment.blocks) {
    const w = device.blocks.bytes[b] * perByte;
    context.fillStyle = themeColor(`--role-${device.roleOf(b, app.cursor)}`);
    context.fillRect(x + device.blocks.offset[b] * perByte, y, Math.max(0.5, w - (w > 3 ? 1 : 0)), MAP_ROW);
  }
}

function boxUnder(boxes, event) {
  const [px, py] = [event.offsetX, event.offsetY];
  const box = boxes.find((b) => px >= b.x && px < b.x + b.width && py >= b.y && py < b.y + MAP_ROW);
  return box && { ...box, byte: (px - box.x) / box.perByte };
}

function blockInMap(device, boxes, event) {
  const box = boxUnder(boxes, event);
  const { offset, bytes } = device.blocks;
  return box?.segment.blocks.find((b) => offset[b] <= box.byte && box.byte < offset[b] + bytes[b]);
}

function mapText(device, boxes, event) {
  const box = boxUnder(boxes, event);
  if (!box) return "Point at a block to see its name.";
  const { segment } = box;
  const where = `segment ${segment.number} (${formatBytes(segment.bytes)}, ${formatBytes(segment.free)} free)`;
  const b = blockInMap(device, boxes, event);
  if (b === undefined) return `${where}: free`;
  return `${where}: ${device.titleOf(b)}, ${formatBytes(device.blocks.bytes[b])}, ` +
    `${report.roles[device.roleOf(b, app.cursor)]}, ${byOfBlock(device, b)}`;
}

function strandedTable(device, segments) {
  const rows = segments.slice(0, 20);
  return element("table", {},
    element("thead", {}, element("tr", {}, ["segment", "size", "free in it", "kept by", "allocated in", "freed"].map((label, c) =>
      element("th", { class: c === 1 || c === 2 ? "number" : "" }, label)))),
    element("tbody", {}, rows.map((s) => strandedRow(device, s))));
}

// The block that keeps the segment is the one that is freed last. If several are never freed, it is the largest.
function strandedRow(device, segment) {
  const { blocks } = device;
  const pin = d3.greatest(segment.blocks, (a, b) =>
    blocks.died[a] - blocks.died[b] || blocks.bytes[a] - blocks.bytes[b]);
  const others = segment.blocks.length - 1;
  return element("tr", { "data-segment": segment.number, ...clickable(() => show({ pinned: pin, hovered: null })) },
    element("td", {}, String(segment.number)),
    numberCell(bytesOf(segment.bytes)), numberCell(bytesOf(segment.free)),
    element("td", { class: "name" }, swatch(device.roleOf(pin, app.cursor)), device.titleOf(pin), ", ",
      bytesOf(blocks.bytes[pin]), others ? ` and ${formatExact(others)} more` : ""),
    element("td", { class: "name" }, byOfBlock(device, pin)), element("td", { class: "name" }, freedText(device, pin)));
}
