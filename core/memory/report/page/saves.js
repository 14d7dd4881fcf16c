// When a block was kept for backward, and by whom. A recording tells each node's hold and drop; the plain log only that
// the role became "saved for backward" and no longer was.

// [{from, to}]: events; `to` is the device's count where it is kept still.
function savesOf(device, b) {
  const chain = device.eventsOf(b);
  const held = chain.some((e) => device.events.kind[e] === KIND.hold);
  return held ? holdsIn(device, chain) : savedIn(device, chain);
}

// A drop ends the latest hold by the same op and module: backward runs in those of its forward op.
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
