// Numbers in the same format as in the library's text reports (core/memory/report/format.cpp).

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// Rounds ties to the even digit, as C++ does: 1.125 is 1.12.
function fixed(value, digits) {
  const scaled = value * 10 ** digits;
  let whole = Math.round(scaled);
  if (Math.abs(scaled % 1) === 0.5 && whole % 2 !== 0) whole -= 1;
  return (whole / 10 ** digits).toFixed(digits);
}

// "512 B", "9.50 KiB", "-1.21 GiB": three significant digits.
function formatBytes(bytes) {
  if (bytes < 0) return "−" + formatBytes(-bytes);
  if (bytes < 1024) return `${bytes} B`;
  let unit = 0;
  let value = bytes;
  for (; value >= 1023.5 && unit < UNITS.length - 1; ++unit) value /= 1024;
  return `${fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${UNITS[unit]}`;
}

// "50,331,648".
function formatExact(count) {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",").replace("-", "−");
}

// A module's name in a sentence. "3 BasicBlock" would read as a number of blocks.
function quoted(name) { return name.includes(" ") ? `'${name}'` : name; }

// "1 step", "1,200 steps".
function formatCount(n, what) { return `${formatExact(n)} ${what}${n === 1 ? "" : "s"}`; }

// "+1.50 KiB", for a change.
function formatChange(bytes) {
  return bytes > 0 ? "+" + formatBytes(bytes) : formatBytes(bytes);
}

// "66 %", "<1 %".
function formatShare(part, whole) {
  if (!part || !whole) return "0 %";
  const percent = (100 * part) / whole;
  return percent < 1 ? "<1 %" : `${fixed(percent, 0)} %`;
}

// "12.3 ms", from nanoseconds.
function formatTime(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]])
    if (Math.abs(ns) >= size) return `${+(ns / size).toPrecision(4)}\u00a0${unit}`;
  return `${Math.round(ns)}\u00a0ns`;
}

// About `count` ticks of an axis. Their distance is a power of two, because sizes in memory often are.
function byteTicks(lowest, highest, count) {
  const step = 2 ** Math.max(0, Math.round(Math.log2((highest - lowest) / count)));
  return d3.range(Math.ceil(lowest / step) * step, highest, step);
}

// The text of a tick, without trailing zeros.
function formatTick(bytes) {
  let unit = 0;
  for (; bytes >= 1024 && unit < UNITS.length - 1; ++unit) bytes /= 1024;
  return `${+bytes.toPrecision(5)} ${UNITS[unit]}`;
}
