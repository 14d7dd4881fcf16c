// Reads the page's two data elements: a header in JSON, and the columns of each run, deflated and in base64
// (core/memory/report/report_columns.h).

const COLUMN_TYPES = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array };

async function inflate(base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function readColumn(buffer, { type, scale, at, count }) {
  const raw = new COLUMN_TYPES[type](buffer, at, count);
  if (scale === 1) return raw;
  const values = new Float64Array(count);
  for (let i = 0; i < count; ++i) values[i] = raw[i] * scale;
  return values;
}

function readTable(buffer, columns) {
  return Object.fromEntries(Object.entries(columns).map(([name, c]) => [name, readColumn(buffer, c)]));
}

// Reads the runs. Their devices are replayed when they are first shown.
async function readReport() {
  const header = JSON.parse(document.getElementById("header").textContent);
  const data = JSON.parse(document.getElementById("data").textContent);
  const buffers = await Promise.all(data.map(inflate));
  const runs = header.runs.map((run, r) => ({ ...run, buffer: buffers[r], replayed: [] }));
  return { ...header, runs };
}

function deviceOf(run, index) {
  return (run.replayed[index] ??= new Device(run.devices[index], run, index));
}
