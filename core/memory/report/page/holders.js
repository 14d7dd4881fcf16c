// The largest holders at the cursor: the bytes of a module and op in one role, with bars scaled to the peak.

const HOLDERS_SHOWN = 10;
const holdersShown = { all: false };

// [{module, op, role, bytes, blocks}]
function holdersAt(device, i) {
  const sums = new Map();
  for (const b of device.history.alive.at(i)) {
    const e = device.lastEventOf(b, i);
    const [module, op, role] = [device.events.module[e], device.blocks.op[b], device.events.role[e]];
    const key = (module * device.names.length + op) * ROLE_COUNT + role;
    if (!sums.has(key)) sums.set(key, { module, op, role, bytes: 0, blocks: [] });
    const holder = sums.get(key);
    holder.bytes += device.blocks.bytes[b];
    holder.blocks.push(b);
  }
  return [...sums.values()];
}

// Holders with the same op, role and size in several modules become one row: [{holders, bytes}], the largest first.
function foldedHolders(device, i) {
  const kind = ({ op, role, bytes, blocks }) => [op, role, bytes, blocks.length].join("|");
  return [...d3.group(holdersAt(device, i), kind).values()]
    .map((holders) => ({ holders, bytes: d3.sum(holders, (h) => h.bytes) }))
    .sort((a, b) => b.bytes - a.bytes || a.holders[0].module - b.holders[0].module);
}

function largestHolders(device, i) {
  const rows = foldedHolders(device, i);
  const shown = holdersShown.all ? rows : rows.slice(0, HOLDERS_SHOWN);
  const rest = rows.slice(shown.length);
  const peak = device.history.allocated[device.history.peak];
  const labels = ["held by", "op", "as", "bytes", "of the peak", ""];
  return element("div", { class: "holders" },
    element("table", {},
      element("thead", {}, element("tr", {}, labels.map((l, c) => element("th", { class: c === 3 || c === 4 ? "number" : "" }, l)))),
      element("tbody", {}, shown.map((row) => holderRow(device, row, peak)))),
    rest.length > 0 && element("button", { class: "more", onclick: () => {
      holdersShown.all = true;
      redrawTab();
    } }, `show ${formatExact(rest.length)} more, ${formatBytes(d3.sum(rest, (r) => r.bytes))}`));
}

function holderRow(device, { holders, bytes }, peak) {
  const [{ op, role, blocks }] = holders;
  const names = holders.map((h) => device.moduleName(h.module)).sort(d3.ascending);
  const count = holders.length * blocks.length;
  const largest = d3.greatest(blocks, (b) => device.blocks.bytes[b]);
  return element("tr", { "data-block": largest, title: listText(names, 12),
    ...clickable(() => show({ pinned: largest, hovered: null })) },
  element("td", { class: "name" }, names[0], timesMark(names.length)),
  element("td", { class: "name" }, device.opName(op), count > 1 && element("small", {}, ` ${formatCount(count, "block")}`)),
  element("td", { class: "role" }, swatch(role), report.roles[role]),
  numberCell(bytesOf(bytes)), numberCell(formatShare(bytes, peak)),
  element("td", { class: "bar-lane" }, element("i", {
    style: `width:${Math.max(0.2, (100 * bytes) / peak)}%;background:${roleColor(role)}` })));
}
