// Stacked bars of the bytes held after each phase of each step.

const BAR_HEIGHT = 240;
const phasesShown = { from: 0 };
const STEPS_SHOWN = 3;

// A stage is {label, step, event, times}: `event` is its last. Of a stage that a step repeats, as gradient accumulation
// repeats forward, the one that left the most bytes is shown, with the number of times. `step` counts from 1, not by the program's number, so that two
// runs of one process align. Step 0 is before the first step.

// The stages before the first step, in order of their last events. Model, optimizer and data may come in any order. A
// stage ends with the last block of its role.
function setupStages(device, end) {
  const { kind, role } = device.events;
  const made = [["model built", ROLE.parameter], ["optimizer made", ROLE.optimizerState], ["input loaded", ROLE.input]];
  const last = made.map(() => -1);
  for (let i = 0; i < end; ++i)
    if (kind[i] === KIND.alloc || kind[i] === KIND.retag)
      made.forEach(([, r], m) => { if (r === role[i]) last[m] = i; });
  const stages = made.map(([label], m) => ({ label, step: 0, event: last[m] })).filter((s) => s.event >= 0);
  return stages.sort((a, b) => a.event - b.event);
}

const STAGE_OF_PHASE = ["between", "input loaded", "forward", "backward", "optimizer step"];

// The stages of a step. A forward that saves nothing, such as reading the loss after backward, is no stage.
function stepStages(device, step, count) {
  const cleared = zeroGradEnd(device, step.begin, step.end);
  const stages = cleared < 0 ? [] : [{ label: "zero_grad", step: count, event: cleared }];
  for (const { phase, from, to } of device.scopes.time.length ? scopeRuns(device, step) : eventRuns(device, step)) {
    if (phase === PHASE.setup || to < cleared) continue;
    if (phase === PHASE.forward && !d3.range(from, to + 1).some((i) => makesWork(device, i))) continue;
    stages.push({ label: STAGE_OF_PHASE[phase], step: count, event: to });
  }
  return repeatsFolded(device, stages);
}

function repeatsFolded(device, stages) {
  const { allocated } = device.history;
  return d3.groups(stages, (s) => s.label).map(([, same]) =>
    ({ ...d3.greatest(same, (s) => allocated[s.event]), times: same.length }));
}

// [{phase, from, to}]: runs of one phase in the training thread, by the marks of its scopes. A phase without events is
// included. Its `to` is the event before it.
function scopeRuns(device, { begin, end }) {
  const { time, stage } = device.scopes;
  const eventBefore = (t) => d3.bisectLeft(device.time, t) - 1;
  const first = d3.bisectRight(time, device.time[begin]);
  const runs = [{ phase: PHASE.forward, from: begin }];
  for (let s = first; s < time.length && time[s] <= device.time[end]; ++s) {
    const last = runs[runs.length - 1];
    const now = stage[s] === PHASE.setup ? PHASE.forward : stage[s];  // a step's own time
    if (now === last.phase) continue;
    last.to = Math.max(begin, eventBefore(time[s]));
    runs.push({ phase: now, from: last.to + 1 });
  }
  runs[runs.length - 1].to = end;
  return runs;
}

// The same by the events, for a recording without marks.
function eventRuns(device, { begin, end }) {
  const { thread, phase } = device.events;
  const runs = [];
  for (let i = begin; i <= end; ++i) {
    if (thread[i] !== device.mainThread) continue;
    const last = runs[runs.length - 1];
    if (last?.phase === phase[i]) last.to = i;
    else runs.push({ phase: phase[i], from: i, to: i });
  }
  return runs;
}

function makesWork(device, i) {
  const { kind, role, byModule } = device.events;
  return kind[i] === KIND.hold || role[i] === ROLE.saved || (kind[i] === KIND.alloc && byModule[i] !== 0);
}

// The event of the last gradient that is freed before backward, by zero_grad(), because forward frees none; -1: none.
function zeroGradEnd(device, begin, end) {
  const { kind, role, thread, phase } = device.events;
  let cleared = -1;
  for (let i = begin; i <= end; ++i) {
    if (thread[i] !== device.mainThread) continue;
    if (phase[i] === PHASE.backward || phase[i] === PHASE.optimizer) break;
    if (kind[i] === KIND.free && role[i] === ROLE.gradient) cleared = i;
  }
  return cleared;
}

function drawPhases(view, device) {
  phasesShown.from = Math.min(phasesShown.from, Math.max(0, device.steps.length - 1));
  const runs = [{ device, label: runLabel(app.run) }];
  const other = otherRun() && matchingDevice(otherRun(), device);
  if (other) runs.push({ device: other, label: runLabel(1 - app.run) });
  const lists = runs.map((run) => shownStages(run.device));
  if (lists.every((l) => l.length === 0))
    return view.append(note("There are no phases: the program marked no step with memory::Step and made no parameters."));
  const labels = new Set(lists.flat().map((s) => s.label));
  const shown = runs.map((run, r) => ({ ...run, stages: completed(run.device, lists[r], labels) }));
  const highest = d3.max(shown, (run) => d3.max(run.stages, (s) => run.device.history.allocated[s.event])) || 512;
  view.append(heading("Held after each phase", stepPicker(device)),
    phaseChart(shown, highest), roleKey(shown));
}

// The device that a meta device predicts: "cuda:0" for "meta:cuda:0".
function standsFor(name) { return name === "meta" ? "cpu" : name.replace("meta:", ""); }

function matchingDevice(run, device) {
  const devices = shownDevices(run);
  if (devices.length === 0) return null;
  const twin = devices.find(([, name]) => name === device.name) ??
    devices.find(([, name]) => standsFor(name) === standsFor(device.name)) ?? devices[0];
  return deviceOf(run, twin[0]);
}

function stepPicker(device) {
  const steps = device.steps;
  if (steps.length <= STEPS_SHOWN) return null;
  return select("from step", steps.map((s, i) => [i, String(s.number)]), Math.min(phasesShown.from, steps.length - 1),
    (from) => {
      phasesShown.from = from;
      redrawTab();
    });
}

// The stages before the first step, and those of three steps.
function shownStages(device) {
  const { from } = phasesShown;
  const steps = device.steps.slice(from, from + STEPS_SHOWN);
  return [...setupStages(device, device.steps[0]?.begin ?? device.count),
    ...steps.flatMap((step, s) => stepStages(device, step, from + s + 1))];
}

const STEP_STAGES = ["zero_grad", "input loaded", "forward", "backward", "optimizer step"];

// Adds the stages that a step lacks although other steps have them, with the bytes held before. A stage without
// allocations and frees leaves no event, and zero_grad() leaves no mark.
function completed(device, stages, labels) {
  const whole = stages.filter((s) => s.step === 0);
  for (const [step, own] of d3.groups(stages.filter((s) => s.step !== 0), (s) => s.step)) {
    const named = new Map(own.map((s) => [s.label, s]));
    let event = device.steps[step - 1].begin;
    for (const label of STEP_STAGES.filter((l) => labels.has(l) && (l !== "input loaded" || named.has(l)))) {
      event = named.get(label)?.event ?? event;
      whole.push({ label, step, event, times: named.get(label)?.times ?? 1 });
    }
  }
  return whole;
}

function phaseChart(runs, highest) {
  const y = d3.scaleLinear([0, highest], [0, BAR_HEIGHT]);
  const slots = alignStages(runs.map((run) => run.stages));
  const groups = d3.groups(slots, (s) => s.step);
  return element("div", { class: runs.length > 1 ? "phase-chart paired" : "phase-chart" },
    element("div", { class: "phase-axis", style: `height:${BAR_HEIGHT}px` }, byteTicks(0, highest, 5).map((t) =>
      element("span", { style: `bottom:${y(t)}px` }, formatTick(t)))),
    element("div", { class: "phase-groups" }, groups.map(([step, group]) => phaseGroup(runs, step, group, y))));
}

// Aligns equal stages of the runs: [{label, step, events: one per run, or undefined}].
function alignStages(lists) {
  const slots = lists[0].map((s) => ({ label: s.label, step: s.step, times: s.times ?? 1, events: [s.event] }));
  lists.slice(1).forEach((stages, l) => {
    let at = 0;
    for (const stage of stages) {
      const found = slots.findIndex((s, i) => i >= at && s.step === stage.step && s.label === stage.label);
      if (found >= 0) {
        slots[found].events[l + 1] = stage.event;
        slots[found].times = Math.max(slots[found].times, stage.times ?? 1);
      }
      else slots.splice(at, 0, { ...stage, events: Array(l + 1).concat(stage.event) });
      at = (found >= 0 ? found : at) + 1;
    }
  });
  return slots;
}

function phaseGroup(runs, step, slots, y) {
  const name = step === 0 ? "before" : `step ${runs[0].device.steps[step - 1]?.number ?? step}`;
  return element("div", { class: "phase-group", style: `flex-grow:${slots.length};min-width:${slots.length * 60}px` },
    element("div", { class: "phase-bars", style: `height:${BAR_HEIGHT}px` },
      slots.map((slot) => element("div", { class: "phase-slot" }, runs.map((run, r) =>
        slot.events[r] === undefined ? null : phaseBar(run, slot, slot.events[r], y))))),
    element("div", { class: "phase-labels" }, slots.map((slot) => element("span", {}, slotLabel(slot)))),
    element("div", { class: "phase-step" }, name));
}

function slotLabel({ label, times }) { return times > 1 ? `${label}, the highest of ${times}` : label; }

function phaseBar({ device, label }, slot, event, y) {
  const level = device.history.at(event);
  const allocated = device.history.allocated[event];
  const parts = STACK.filter((role) => level[role]).map((role) =>
    element("i", { style: `height:${y(level[role])}px;background:${roleColor(role)}`,
      title: `${report.roles[role]}: ${formatExact(level[role])} bytes` }));
  return element("button", { class: "phase-bar", "data-event": event, "data-stage": slot.label, "data-step": slot.step,
    title: `${label}, after ${slot.label}: ${formatExact(allocated)} bytes`,
    onclick: () => device === currentDevice() && show({ cursor: event, hovered: null }) },
    element("b", {}, bytesOf(allocated)), ...parts.reverse());
}

// The key: the roles in the bars, and which run is left and right.
function roleKey(runs) {
  const used = STACK.filter((role) => runs.some(({ device, stages }) =>
    stages.some((s) => device.history.at(s.event)[role])));
  return element("p", { class: "key" }, used.map((role) => element("span", {}, swatch(role), report.roles[role])),
    runs.length > 1 && element("span", { class: "pair" }, `left: ${runs[0].label}, right: ${runs[1].label}`));
}
