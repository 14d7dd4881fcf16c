// What colours, words and keys mean. The key i opens it.

const ROLE_TEXTS = {
  parameter: "weights that the optimizer updates",
  autocastCopy: "16-bit copies of weights, under Autocast",
  gradient: "gradients of parameters",
  optimizerState: "momentum and moments, between steps",
  input: "batches and data sets",
  saved: "results of forward that backward needs; released by backward",
  temporary: "results and intermediates that nothing saves",
  workspace: "scratch memory of a kernel while it runs",
  keyValueCache: "keys and values of earlier tokens, in generation",
  communication: "buffers of exchanges between processes",
};
const WORDS = [
  ["allocated", "bytes of tensors and workspaces, rounded up to 512"],
  ["reserved", "bytes taken from the system: allocated, and free pieces that the allocator keeps for later requests"],
  ["peak", "the first moment at which the most bytes were allocated"],
  ["pale colours", "in a pixel with several events, the most that was held; full colours show the least"],
  ["block", "the memory of one tensor or workspace; several views of a tensor are one block"],
  ["segment", "memory that the allocator took from the system at once, and cuts into blocks"],
  ["step", "what the program does between the begin and the end of a memory::Step"],
  ["rounding", "bytes by which blocks are larger than what was asked for"],
  ["red line", "a request that ran out of memory"],
  ["flame chart", "by time, below the phases: which module and op ran; a wider bar took longer"],
  ["device, stream", "below the flame chart: the kernels and copies of a GPU, with the colour of the op that launched them"],
  ["FLOP, bytes", "by op: the floating-point operations of its products, and the bytes that its kernels must at least move"],
  ["roofline", "the least time of these at the machine's ceilings, as a share of the time that they took"],
  ["wait for device", "the host did nothing but wait for the GPU"],
  ["event", "a block was allocated, freed, saved, released or got another role; a step began or ended; a copy ran"],
];
const KEYS = [
  ["← →", "one event; with shift, ten"], ["[ ]", "to the step before, after"], ["p", "to the peak"],
  ["+ −", "zoom, as the wheel does"], ["↑ ↓", "zoom vertically, as shift and the wheel do"], ["0", "the whole run"],
  ["s", "the cursor's step and its neighbours"], ["click", "pins a block; esc unpins it"], ["t", "light or dark"],
  ["i", "this page"],
];

function aboutDialog() {
  const list = (rows) => element("dl", {}, rows.map(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
  const roles = [...STACK].reverse().map((role) => [
    [swatch(role), report.roles[role]], ROLE_TEXTS[Object.keys(ROLE).find((name) => ROLE[name] === role)]]);
  const dialog = element("dialog", { id: "about", "aria-label": "What the page shows" },
    element("form", { method: "dialog" }, element("button", { class: "quiet", "aria-label": "Close" }, "×")),
    element("div", { class: "columns" },
      element("section", {}, element("h2", {}, "Colours: what memory is for"), list(roles)),
      element("section", {}, element("h2", {}, "Words"), list(WORDS), element("h2", {}, "Keys"),
        list(KEYS.map(([keys, text]) => [keys.split(" ").map((k) => element("kbd", {}, k)), text])))));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });  // beside the box
  dialog.addEventListener("keydown", (e) => { if (e.key === "i") dialog.close(); });
  return dialog;
}

function toggleAbout() {
  const open = document.getElementById("about");
  if (open) return open.close();
  const dialog = aboutDialog();
  document.body.append(dialog);
  return dialog.showModal();
}
