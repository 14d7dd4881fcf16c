// All bytes of the device: the requested bytes of each role, rounding, cache and memory outside the ledger. They add up
// to the bytes in use on the device.

function drawWaterfall(view, device) {
  const lines = billOf(device, app.cursor);
  const total = d3.sum(lines, (l) => l.bytes);
  const x = d3.scaleLinear([0, total || 1], [0, 100]);
  let sum = 0;
  const rows = lines.map((line) => {
    const row = billRow(line, x, sum);
    sum += line.bytes;
    return row;
  });
  view.append(heading("The whole device", note(momentText(device)), peakButton(device)),
    element("div", { class: "waterfall", "data-total": total }, rows,
      billRow({ label: totalLabel(device.header), bytes: total, kind: "total" }, x, 0)),
    note(outsideText(device)));
}

// [{label, bytes, role or kind}], from the device's levels and the requested bytes of each live block.
function billOf(device, i) {
  const asked = new Float64Array(ROLE_COUNT);
  for (const b of device.history.alive.at(i)) asked[device.roleOf(b, i)] += device.blocks.requested[b];
  const level = device.history.at(i);
  const allocated = device.history.allocated[i];
  const lines = STACK.filter((role) => asked[role])
    .map((role) => ({ label: report.roles[role], bytes: asked[role], role }));
  lines.push({ label: "rounding", bytes: allocated - level[REQUESTED], kind: "rounding" });
  lines.push({ label: "cached", bytes: level[RESERVED] - allocated, kind: "usable" });
  return [...lines, ...outsideLines(device.header)];
}

function totalLabel({ outside, external }) {
  if (outside != null) return "total";
  return external ? "reserved and external" : "reserved";
}

// The memory of other libraries in tensors is external. It and all memory outside the ledger are as they were at the end.
// On the host, what is measured outside the ledger includes it.
function outsideLines({ name, outside, others, external }) {
  const lines = external && (outside == null || name.startsWith("cuda")) ? [{ label: "external", bytes: external, kind: "outside" }] : [];
  if (outside == null) return lines;
  if (others == null) return [...lines, { label: "outside the ledger", bytes: outside, kind: "outside" }];
  return [...lines, { label: "context and libraries", bytes: outside - others, kind: "outside" },
    { label: "other processes", bytes: others, kind: "others" }];
}

function billRow({ label, bytes, role, kind }, x, from) {
  const color = role === undefined ? "" : `background:${roleColor(role)};`;
  return element("div", { class: `bill ${kind ?? ""}`, "data-line": label },
    element("span", { class: "bill-label" }, label),
    element("span", { class: "bill-lane" },
      element("i", { class: kind ?? "", style: `${color}left:${x(from)}%;width:${x(bytes)}%` })),
    element("span", { class: "number" }, bytesOf(bytes)),
    element("span", { class: "number exact" }, formatExact(bytes)));
}

function outsideText({ header }) {
  if (header.outside == null) return "Memory outside the ledger was not measured.";
  const what = header.others != null ? "context and libraries, other processes"
    : header.name.startsWith("cuda") ? "context and libraries of the device, and other processes"
      : "code, stacks and libraries";
  return `Memory outside the ledger (${what}) was measured at the end of the run. The lines add up exactly.`;
}
