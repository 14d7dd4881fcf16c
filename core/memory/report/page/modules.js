// The table module × role at the cursor: a tree of modules whose leaves are ops.

const SPLIT = [
  ["parameters", [ROLE.parameter, ROLE.autocastCopy]],
  ["activations", [ROLE.saved, ROLE.temporary]],
  ["gradients", [ROLE.gradient]],
  ["communication", [ROLE.communication]],
  ["optimizer state", [ROLE.optimizerState]],
  ["key-value cache", [ROLE.keyValueCache]],
  ["inputs", [ROLE.input]],
  ["workspaces", [ROLE.workspace]],
];
const modulesShown = { sort: { by: 1, reversed: false }, toggled: new Set() };
const MANY_MODULES = 24;

function drawModules(view, device) {
  const tree = moduleTree(device, app.cursor);
  const roles = STACK.filter((role) => tree.bytes[role] > 0);
  view.append(heading("Who holds it", note(momentText(device)), peakButton(device)), splitBar(tree),
    element("h3", {}, "The largest holders"), largestHolders(device, app.cursor),
    element("h3", {}, "Module by role"), moduleTable(tree, roles));
}

function peakButton(device) {
  if (app.cursor === device.history.peak) return null;
  return element("button", { onclick: () => show({ cursor: device.history.peak, hovered: null }) }, "to the peak");
}

function node(name, path) { return { name, path, bytes: new Float64Array(ROLE_COUNT), children: new Map(), total: 0 }; }

function moduleTree(device, i) {
  const root = node("all", "");
  for (const b of device.history.alive.at(i)) {
    const e = device.lastEventOf(b, i);
    const module = device.names[device.events.module[e]];
    const path = [...(module ? module.split(".") : ["(outside modules)"]), device.opName(device.blocks.op[b])];
    book(root, path, device.events.role[e], device.blocks.bytes[b]);
  }
  return root;
}

// The path's last separator distinguishes an op from a module of the same name.
function book(root, path, role, bytes) {
  let at = root;
  at.bytes[role] += bytes;
  at.total += bytes;
  path.forEach((name, depth) => {
    const isOp = depth === path.length - 1;
    const key = (isOp ? "/" : ".") + name;
    if (!at.children.has(key)) at.children.set(key, { ...node(name, at.path + key), isOp });
    at = at.children.get(key);
    at.bytes[role] += bytes;
    at.total += bytes;
  });
}

function splitBar(tree) {
  const parts = SPLIT.map(([label, roles]) => ({ label, roles, bytes: d3.sum(roles, (r) => tree.bytes[r]) }));
  return element("div", { class: "split" },
    element("div", { class: "split-bar", role: "img", "aria-label": "shares of the allocated bytes" },
      STACK.filter((role) => tree.bytes[role]).map((role) =>
        element("i", { style: `flex-grow:${tree.bytes[role]};background:${roleColor(role)}`,
          title: `${report.roles[role]}: ${formatExact(tree.bytes[role])} bytes` }))),
    element("dl", {}, parts.map(({ label, roles, bytes }) => element("div", { class: bytes ? "" : "zero" },
      element("dt", {}, roles.map(swatch), label),
      element("dd", {}, bytesOf(bytes), " ", element("small", {}, formatShare(bytes, tree.total)))))));
}

function moduleTable(tree, roles) {
  const columns = [
    { label: "module, op", value: (n) => n.name, class: "tree" },
    { label: "total", number: true, value: (n) => n.total },
    ...roles.map((role) => ({ label: report.roles[role], number: true, role, value: (n) => n.bytes[role] })),
  ];
  modulesShown.sort.by = Math.min(modulesShown.sort.by, columns.length - 1);
  const { sort } = modulesShown;
  const highest = d3.max([...tree.children.values()], (n) => d3.max(roles, (role) => n.bytes[role])) ?? 0;
  const rows = [];
  addRows(rows, tree, 0, { columns, highest, isLarge: countModules(tree) > MANY_MODULES });
  return element("table", { class: "modules" },
    element("thead", {}, tableHead(columns, sort, redrawTab)),
    element("tbody", {}, rows,
      element("tr", { class: "total", "data-module": "all" }, element("td", { class: "tree" }, "all"),
        columns.slice(1).map((c) => element("td", { class: "number" }, bytesOf(c.value(tree)))))));
}

function countModules(n) { return d3.sum(n.children.values(), (c) => (c.isOp ? 0 : 1 + countModules(c))); }

function addRows(rows, parent, depth, table) {
  for (const n of inOrder(parent.children.values(), table.columns, modulesShown.sort)) {
    const open = n.children.size > 0 && opensByItself(n, table) !== modulesShown.toggled.has(n.path);
    rows.push(moduleRow(n, depth, open, table));
    if (open) addRows(rows, n, depth + 1, table);
  }
}

// Whether a row is open at first: modules that contain modules are, except in a large tree.
function opensByItself(n, { isLarge }) { return !isLarge && [...n.children.values()].some((c) => !c.isOp); }

function moduleRow(n, depth, open, { columns, highest }) {
  const toggle = () => {
    if (!modulesShown.toggled.delete(n.path)) modulesShown.toggled.add(n.path);
    redrawTab();
  };
  const name = n.children.size === 0 ? element("span", { class: "leaf" }, n.name)
    : element("button", { class: "fold", "aria-expanded": String(open), onclick: toggle }, n.name);
  return element("tr", { class: n.isOp ? "op" : "", "data-module": n.path },
    element("td", { class: "tree", style: `padding-left:${8 + depth * 18}px` }, name),
    columns.slice(1).map((c) => amountCell(c.value(n), c.role, highest)));
}

// A number above a bar of proportional length.
function amountCell(bytes, role, highest) {
  const share = role === undefined || !highest ? 0 : Math.min(100, (100 * bytes) / highest);
  return element("td", { class: bytes ? "number" : "number zero" }, bytes ? bytesOf(bytes) : "·",
    share > 0 && element("i", { class: "bar", style: `width:${share}%;background:${roleColor(role)}` }));
}
