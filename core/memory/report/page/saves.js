// The time for which a block is saved for backward, and the op that saves it. A recording has an event for each node
// that saves or releases a block. A ledger's log has only the changes of the role "saved for backward".

// [{from, to}]: events. `to` is the device's count if the block is not released.
function savesOf(device, b) {
  const chain = device.eventsOf(b);
  const held = chain.some((e) => device.events.kind[e] === KIND.hold);
  return held ? holdsIn(device, chain) : savedIn(device, chain);
}

// A drop ends the latest hold by the same op and module, because backward runs in the op and module of its forward.
function holdsIn(device, chain) {
  const { kind, byOp, byModule } = device.events;
  const [open, saves] = [[], []];
  for (const e of chain) {
    if (kind[e] === KIND.hold) {
      const save = { from: e, to: device.count };
      open.push(save);
      saves.push(save);
    } else if (kind[e] === KIND.drop && open.length) {
      const own = open.findLastIndex((s) => byOp[s.from] === byOp[e] && byModule[s.from] === byModule[e]);
      open.splice(own < 0 ? open.length - 1 : own, 1)[0].to = e;
    } else if (kind[e] === KIND.free) {
      for (const save of open.splice(0)) save.to = e;
    }
  }
  return saves;
}

function savedIn(device, chain) {
  const { kind, role } = device.events;
  const saves = [];
  let open = null;
  for (const e of chain) {
    const saved = role[e] === ROLE.saved && kind[e] !== KIND.free;
    if (saved && !open) saves.push((open = { from: e, to: device.count }));
    if (!saved && open) {
      open.to = e;
      open = null;
    }
  }
  return saves;
}
