// The stacks of roles and the line of reserved bytes in the timeline.

const PALE = 0.6;

function drawStacks({ context, columns, y }) {
  const colors = STACK.map((role) => themeColor(`--role-${role}`));
  for (const { x, width, highest, lowest } of columns) {
    if (highest !== lowest) {
      context.globalAlpha = PALE;
      drawStack(context, MARGIN.left + x, width, highest, y, colors, sumOfRoles(lowest));
      context.globalAlpha = 1;
    }
    drawStack(context, MARGIN.left + x, width, lowest, y, colors, 0);
  }
}

function sumOfRoles(level) {
  let sum = 0;
  for (let role = 0; role < ROLE_COUNT; ++role) sum += level[role];
  return sum;
}

// Draws the part of a stack above the first `from` bytes.
function drawStack(context, x, width, level, y, colors, from) {
  let below = 0;
  STACK.forEach((role, s) => {
    const bottom = Math.max(below, from);
    below += level[role];
    if (bottom >= below) return;
    context.fillStyle = colors[s];
    context.fillRect(x, y(below), width, y(bottom) - y(below));
  });
}

function isShown(bytes, y) { return bytes >= y.domain()[0] && bytes <= y.domain()[1]; }

function drawReserved({ context, columns, y, device }) {
  context.strokeStyle = themeColor("--ink");
  context.lineWidth = 1.25;
  context.beginPath();
  let isCut = true;
  for (const { x, width, highest } of columns) {
    const isInside = isShown(highest[RESERVED], y);
    if (!isInside) {
      isCut = true;
      continue;
    }
    if (isCut) context.moveTo(MARGIN.left + x, y(highest[RESERVED]));
    isCut = false;
    context.lineTo(MARGIN.left + x, y(highest[RESERVED]));
    context.lineTo(MARGIN.left + x + width, y(highest[RESERVED]));
  }
  context.stroke();
  for (const stretch of limitsIn(device, columns)) if (isShown(stretch.limit, y)) drawLimit(context, y(stretch.limit), stretch);
}

// Neighbouring columns with the same limit: [{limit, x, width}]. Columns without a limit are left out.
function limitsIn(device, columns) {
  const stretches = [];
  for (const { x, width, to } of columns) {
    const limit = device.limitAt(to);
    const last = stretches[stretches.length - 1];
    if (last?.limit === limit) last.width = x + width - last.x;
    else stretches.push({ limit, x, width });
  }
  return stretches.filter(({ limit }) => limit != null);
}

// Labels the line of reserved bytes: above the picture if the line is higher, and left of the cursor if the label would
// cross it.
function labelReserved({ context, columns, x: scale, y }) {
  const { x, width, highest } = columns[columns.length - 1];
  const isInside = isShown(highest[RESERVED], y);
  const where = highest[RESERVED] > y.domain()[1] ? ", above the picture" : isInside ? "" : ", below the picture";
  const label = `reserved ${formatBytes(highest[RESERVED])}${where}`;
  context.font = `11px ${themeColor("--sans")}`;
  context.fillStyle = themeColor("--ink");
  context.textAlign = "right";
  context.textBaseline = "bottom";
  const cursor = scale(app.timeline.middleOf(app.cursor)), end = x + width;
  const crosses = cursor <= end + 1 && cursor >= end - context.measureText(label).width - 4;
  const place = [MARGIN.left + (crosses ? cursor - 6 : end), isInside ? y(highest[RESERVED]) - 3 : MARGIN.top - 1];
  const length = context.measureText(label).width;
  context.fillStyle = themeColor("--surface");  // a limit's line would cross the words
  context.fillRect(place[0] - length - 2, place[1] - 12, length + 4, 12);
  context.fillStyle = themeColor("--ink");
  rimmedText(context, label, ...place);
  context.textAlign = "left";
}

// Names the peak above the stack.
function labelPeak({ context, device, x, y, width }) {
  const { peak, allocated } = device.history;
  const px = x(app.timeline.middleOf(peak));
  if (px < 0 || px > width || !isShown(allocated[peak], y)) return;
  context.font = `600 11px ${themeColor("--sans")}`;
  context.fillStyle = themeColor("--ink");
  context.textBaseline = "bottom";
  const label = `▾ peak ${formatBytes(allocated[peak])}`;
  const half = context.measureText("▾").width / 2;
  const fits = px + context.measureText(label).width < width;
  context.textAlign = fits ? "left" : "right";
  rimmedText(context, fits ? label : `peak ${formatBytes(allocated[peak])} ▾`, MARGIN.left + px + (fits ? -half : half), y(allocated[peak]) - 2);
  context.textAlign = "left";
}

// Draws a line at each request that ran out of memory.
function drawFailures({ context, device, x, width }) {
  context.fillStyle = themeColor("--warning");
  for (const i of device.failures) {
    const px = x(app.timeline.middleOf(i));
    if (px >= 0 && px <= width) context.fillRect(MARGIN.left + px - 1, MARGIN.top, 2, PLOT_HEIGHT);
  }
}

function drawLimit(context, top, { limit, x, width }) {
  context.strokeStyle = context.fillStyle = themeColor("--warning");
  context.setLineDash([4, 4]);
  context.strokeRect(MARGIN.left + x, top, width, 0);
  context.setLineDash([]);
  const label = `limit ${formatBytes(limit)}`;
  context.font = `11px ${themeColor("--sans")}`;
  if (context.measureText(label).width + 8 > width) return;
  context.textAlign = "left";
  context.textBaseline = "bottom";
  rimmedText(context, label, MARGIN.left + x + 4, top - 3);
}

// Draws text with a rim, which keeps it readable on the stack.
function rimmedText(context, label, ...place) {
  context.strokeStyle = themeColor("--surface");
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.strokeText(label, ...place);
  context.lineWidth = 1;
  context.fillText(label, ...place);
}
