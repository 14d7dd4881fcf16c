// A function that makes elements, and elements that all views use.

// element("td", {class: "number", onclick: f}, "text", child, ...)
function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "style") e.style.cssText = value;
    else if (value !== false && value != null) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c != null && c !== false));
  return e;
}

// A size with three digits. The tooltip has the exact size.
function bytesOf(bytes, format = formatBytes) {
  return element("span", { class: "bytes", "data-bytes": bytes, title: `${formatExact(bytes)} bytes` }, format(bytes));
}

function numberCell(content) { return element("td", { class: "number" }, content); }

// "×4", of equal rows.
function timesMark(times) { return times > 1 && element("em", { class: "times" }, `×${times}`); }

function roleColor(role) { return `var(--role-${role})`; }
function swatch(role) { return element("i", { class: "swatch", style: `background:${roleColor(role)}` }); }

// Attributes that make a row clickable, also by the keyboard.
function clickable(click) {
  return { tabindex: 0, onclick: click, onkeydown: (e) => { if (e.key === "Enter") click(); } };
}

// Redraws `parent` and keeps the focus on the element at the same position.
function keepFocus(parent, draw) {
  const focusable = () => [...parent.querySelectorAll("button, select, [tabindex]")];
  const at = focusable().indexOf(document.activeElement);
  draw();
  if (at >= 0) focusable()[at]?.focus({ preventScroll: true });
}

// Buttons, one of which is pressed.
function choice(parent, options, chosen, choose) {
  keepFocus(parent, () => parent.replaceChildren(...options.map(([value, label]) =>
    element("button", { "aria-pressed": String(value === chosen), onclick: () => choose(value) }, label))));
  parent.hidden = options.length < 2;
}

function select(label, options, chosen, choose) {
  const list = element("select", { onchange: (e) => choose(Number(e.target.value)) },
    options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
  return element("label", { class: "select" }, label, " ", list);
}

// columns: [{label, title, number, value(row), cell(row)}]. The title, a tooltip, is optional. A click on a column's head sorts by it, the largest first.
function sortableTable(columns, rows, sort, redraw, rowAttributes = () => ({})) {
  const sorted = inOrder(rows, columns, sort);
  return element("table", {},
    element("thead", {}, tableHead(columns, sort, redraw)),
    element("tbody", {}, sorted.map((row) => element("tr", rowAttributes(row), columns.map((c) =>
      element("td", { class: c.number ? "number" : c.class }, c.cell(row)))))));
}

// Sorts numbers in descending order and texts in ascending order, or the reverse.
function inOrder(rows, columns, { by, reversed }) {
  const { value } = columns[by];
  const order = (a, b) => (typeof value(a) === "string" ? value(a).localeCompare(value(b)) : value(b) - value(a));
  return [...rows].sort((a, b) => (reversed ? order(b, a) : order(a, b)));
}

function tableHead(columns, sort, redraw) {
  const click = (c) => () => {
    sort.reversed = sort.by === c && !sort.reversed;
    sort.by = c;
    redraw();
  };
  return element("tr", {}, columns.map((column, c) =>
    element("th", { class: column.number ? "number" : column.class, scope: "col",
      "aria-sort": sort.by !== c ? "none" : sort.reversed === Boolean(column.number) ? "ascending" : "descending" },
      element("button", { onclick: click(c), title: `${column.title ? `${column.title}. ` : ""}Sort by ${column.label}` }, column.label))));
}

// The theme's value of a CSS variable, for canvases. Cached, because a picture needs it a thousand times.
const themeColors = new Map();
function themeColor(name) {
  if (!themeColors.has(name))
    themeColors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return themeColors.get(name);
}

// Sizes a canvas in CSS pixels, at the screen's resolution. The returned context draws in CSS pixels.
function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
