// The tensors that a step saves for backward, which ops hold them, which backward releases them, and their lifetimes.

const savedShown = { sort: { by: 1, reversed: false }, all: false };
const FIRST_ROWS = 20;

function drawSaved(view, device) {
  const steps = device.steps;
  if (steps.length === 0) return view.append(note("The program marked no step with memory::Step."));
  const step = stepHere(device);
  const rows = savedDuring(device, step);
  view.append(heading("Saved in forward for backward",
    select("step", steps.map((s, i) => [i, String(s.number)]), steps.indexOf(step), (i) => goToStep(device, steps[i])), note(savedSummary(device, rows))));
  if (rows.length === 0) return view.append(note("No tensor was saved for backward in this step."));
  view.append(savedTable(device, equalRowsFolded(rows), step));
}

function stepOfPeak(device) {
  const peak = device.header.peak.reached;
  return device.steps.find((s) => s.begin <= peak && peak <= s.end) ?? device.steps[device.steps.length - 1];
}

// Blocks with the role "saved for backward" that an op saved within the step.
function savedDuring(device, step) {
  const { kind, role } = device.events;
  const found = new Set();
  for (let i = step.begin; i <= step.end; ++i)
    if (role[i] === ROLE.saved && (kind[i] === KIND.alloc || kind[i] === KIND.retag || kind[i] === KIND.hold))
      found.add(device.blockOf[i]);
  const rows = [...found].map((b) => savedRow(device, b, step));
  return rows.sort((a, b) => b.life - a.life);  // so that equal sizes are sorted by lifetime
}

// Equal rows become one, which has the lifetime of the first: microbatches save the same tensors.
function equalRowsFolded(rows) {
  const kind = (r) => [r.title, r.bytes, r.made, r.holders.join(), r.release].join("|");
  return [...d3.group(rows, kind).values()].map((same) => {
    const first = d3.least(same, (r) => r.from);
    return { ...first, times: same.length, sum: same.length * first.bytes };
  });
}

// A block's lifetime within the step. A mask or a table may be saved in other steps too.
function savedRow(device, b, step) {
  const saves = savesOf(device, b).filter((s) => s.from <= step.end && s.to >= step.begin);
  const from = d3.min(saves, (s) => s.from);
  const to = d3.max(saves, (s) => s.to);
  const { blocks } = device;
  return {
    b, from, to, born: blocks.born[b], died: blocks.died[b], bytes: blocks.bytes[b],
    title: device.titleOf(b), made: byOfBlock(device, b),
    holders: [...new Set(saves.map((s) => byText(device, s.from)))],
    release: to < device.count ? byText(device, to) : "not released",
    life: device.time[Math.min(to, device.count - 1)] - device.time[from] || to - from,
  };
}

function byOfBlock(device, b) {
  const module = device.names[device.moduleOf(b, device.blocks.born[b])];
  return [module, device.opName(device.blocks.op[b])].filter(Boolean).join(" · ");
}

function savedSummary(device, rows) {
  const at = rows.length ? d3.max(rows, (r) => r.from) : 0;
  const sum = d3.sum(rows.filter((r) => r.from <= at && r.to > at), (r) => r.bytes);
  return `${formatExact(rows.length)} blocks, ${formatBytes(sum)} held when the last one was saved`;
}

const keeperColumns = [
  { label: "held by backward of", value: (r) => r.holders[0] ?? "", cell: (r) => listText(r.holders, 2), class: "name" },
  { label: "released by", value: (r) => r.release, cell: (r) => r.release, class: "name" },
];

function savedTable(device, rows, step) {
  const x = d3.scaleLinear([step.begin, step.end + 1], [0, 100]).clamp(true);
  const columns = [
    { label: "tensor", value: (r) => r.title, cell: (r) => [r.title, timesMark(r.times)], class: "tensor" },
    { label: "size", number: true, value: (r) => r.sum, cell: (r) => bytesOf(r.sum) },
    { label: "allocated in", value: (r) => r.made, cell: (r) => r.made, class: "name" },
    ...(device.isRecorded ? keeperColumns : []),
    { label: "lifetime", value: (r) => r.life, class: "life", cell: (r) => lifeBar(device, r, x) },
  ];
  const first = inOrder(rows, columns, savedShown.sort).slice(0, savedShown.all || rows.length < FIRST_ROWS + 5 ? rows.length : FIRST_ROWS);
  const table = sortableTable(columns, first, savedShown.sort, redrawTab,
    (r) => ({ "data-block": r.b, ...clickable(() => show({ pinned: r.b, cursor: r.from, hovered: null })) }));
  table.className = "saved";
  table.querySelector("th.life button").after(phaseRuler(device, step, x));
  return element("div", {}, table, restOf(rows));
}

function restOf(rows) {
  if (savedShown.all || rows.length < FIRST_ROWS + 5) return null;
  return element("button", { class: "more", onclick: () => {
    savedShown.all = true;
    redrawTab();
  } }, `show all ${formatExact(rows.length)}`);
}

// Pale while the block is allocated, solid while it is saved for backward.
function lifeBar(device, r, x) {
  const piece = (from, to, kind) =>
    element("i", { class: kind, style: `left:${x(from)}%;width:${Math.max(0.3, x(to) - x(from))}%` });
  return element("span", { class: "lane",
    title: `allocated at event ${r.born}, saved from ${r.from} to ${r.to}, freed at ${r.died}` },
  piece(r.born, r.died, "alive"), piece(r.from, r.to, "kept"));
}

// The phases of the step, above the bars.
function phaseRuler(device, step, x) {
  const runs = [];
  for (let i = step.begin; i <= step.end; ++i) {
    const phase = device.main.phase[i];
    const last = runs[runs.length - 1];
    if (last?.phase === phase) last.to = i + 1;
    else runs.push({ phase, from: i, to: i + 1 });
  }
  return element("span", { class: "lane ruler" }, runs.map(({ phase, from, to }) =>
    element("i", { style: `left:${x(from)}%;width:${x(to) - x(from)}%;background:var(--phase-${phase})`,
      title: report.phases[phase] }, x(to) - x(from) > 14 ? report.phases[phase] : "")));
}
