// The run as a stack of roles over time, on a canvas. Each pixel column shows the lowest stack of its events, and the
// highest in pale colours behind it, so that no peak is lost at any zoom. d3 provides scales, axes, zoom and brush.

const MARGIN = { left: 76, right: 34, top: 18 };
const PLOT_HEIGHT = 350;
const AXIS_HEIGHT = 24;
const OVERVIEW_HEIGHT = 34;

class Timeline {
  constructor(root) {
    this.root = root;
    this.canvas = element("canvas");
    this.svg = d3.create("svg").attr("class", "over");
    this.gridlines = this.svg.append("g").attr("class", "axis y");
    this.xAxis = this.svg.append("g").attr("class", "axis x");
    this.cursorLine = this.svg.append("line").attr("class", "cursor");
    this.surface = this.svg.append("rect").attr("class", "surface");
    this.overview = element("canvas", { class: "overview" });
    this.brushSvg = d3.create("svg").attr("class", "over overview");
    this.brushPlace = this.brushSvg.append("g");
    const main = element("div", { class: "layers" }, this.canvas, this.svg.node());
    root.append(main, element("div", { class: "layers" }, this.overview, this.brushSvg.node()));
    this.window = null;  // range of the axis in view
    this.lift = { from: 0, share: 1 };  // range of the height in view: its start and length, as shares
    this.update = this.update.bind(this);
    this.listen();
  }

  listen() {
    this.zoom = d3.zoom().filter(listener((event) => !event.shiftKey && !event.button))
      .on("zoom", listener((event) => this.zoomed(event)));
    this.surface.call(this.zoom).on("dblclick.zoom", null)
      .on("mousemove", listener((event) => this.pointAt(event)))
      .on("mouseleave", () => show({ hovered: null }))
      .on("click", listener((event) => this.pin(event)));
    this.surface.node().addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.brush = d3.brushX().on("brush", listener((event) => this.brushed(event)));
    document.addEventListener("keydown", (event) => timelineKey(this, event));
    new ResizeObserver(() => this.redraw()).observe(this.root);
  }

  update(change) {
    if ("run" in change || "device" in change) this.reset();
    else if ("axis" in change) this.changeAxis();
    else if ("theme" in change) this.redraw();
    else this.schedule();
  }

  get width() { return Math.max(200, this.root.clientWidth) - MARGIN.left - MARGIN.right; }
  get bands() { return bandsHeight(this); }
  get height() { return MARGIN.top + PLOT_HEIGHT + this.bands + AXIS_HEIGHT; }

  // An event's place on the axis, and the event at a place.
  placeOf(i) {
    if (!this.byTime) return i;
    return i < this.device.count ? this.device.time[i] : this.whole[1];
  }
  eventAt(place) {
    const i = this.byTime ? d3.bisectRight(this.device.time, place) - 1 : Math.floor(place);
    return Math.max(0, Math.min(this.device.count - 1, i));
  }
  // The middle of event i's stretch.
  middleOf(i) { return (this.placeOf(i) + this.placeOf(i + 1)) / 2; }

  reset() {
    this.device = currentDevice();
    this.byTime = app.axis === "time";
    const first = this.byTime ? this.device.time[0] : 0;
    const last = this.byTime ? this.device.time[this.device.count - 1] + 1 : this.device.count;  // end of the last event
    this.whole = [first, Math.max(last, first + 1)];
    this.resize();
    this.lift = { from: 0, share: 1 };
    this.showEvents(...windowOf(this.device, app.cursor));
  }

  // Events `from` up to but not including `to`.
  showEvents(from, to) { this.showWindow([this.placeOf(from), this.placeOf(to)]); }
  // Without the thin slices of events that rounding of the zoom's transform leaves at the edges.
  eventsInView() {
    const slice = (this.window[1] - this.window[0]) * 1e-9;
    const [from, to] = [this.window[0] + slice, this.window[1] - slice];
    return [this.eventAt(from), this.byTime ? d3.bisectLeft(this.device.time, to) : Math.ceil(to)];
  }

  // The same events stay in view.
  changeAxis() {
    const [from, to] = this.window.map((place) => this.eventAt(place));
    this.reset();
    this.showWindow([this.placeOf(from), this.placeOf(to + 1)]);
  }

  resize() {
    if (!this.device) return;
    const full = this.width + MARGIN.left + MARGIN.right;
    this.context = sizeCanvas(this.canvas, full, this.height);
    this.svg.attr("width", full).attr("height", this.height);
    this.surface.attr("x", MARGIN.left).attr("y", MARGIN.top).attr("width", this.width)
      .attr("height", PLOT_HEIGHT + this.bands);
    this.base = d3.scaleLinear(this.whole, [0, this.width]);
    const extent = [[0, 0], [this.width, PLOT_HEIGHT]];
    this.zoom.extent(extent).translateExtent(extent).scaleExtent([1, this.deepest()]);
    this.drawOverview(full);
    if (this.window) this.showWindow(this.window);
  }

  // Draws before the browser paints, because a resized canvas is empty.
  redraw() {
    this.resize();
    if (this.window) this.draw();
  }

  // The deepest zoom: ten events fill the picture. By time, 1 µs does.
  deepest() { return Math.max(1, this.byTime ? (this.whole[1] - this.whole[0]) / 1000 : this.device.count / 10); }

  drawOverview(full) {
    const context = sizeCanvas(this.overview, full, OVERVIEW_HEIGHT);
    const highest = this.device.history.allocated[this.device.history.peak] || 1;
    context.fillStyle = themeColor("--overview");
    for (let x = 0; x < this.width; ++x) {
      const [from, to] = this.eventsIn(this.base, x);
      const { allocated, pyramid } = this.device.history;
      const y = (allocated[pyramid.highest(from, to)] / highest) * (OVERVIEW_HEIGHT - 4);
      context.fillRect(MARGIN.left + x, OVERVIEW_HEIGHT - y, 1, y);
    }
    this.brushSvg.attr("width", full).attr("height", OVERVIEW_HEIGHT);
    this.brushPlace.attr("transform", `translate(${MARGIN.left},0)`)
      .call(this.brush.extent([[0, 0], [this.width, OVERVIEW_HEIGHT]]));
  }

  // The first and the last event in pixel column x.
  eventsIn(scale, x) {
    const from = this.eventAt(scale.invert(x));
    const end = scale.invert(x + 1);
    let to = this.eventAt(end);
    if (to > from && this.placeOf(to) >= end) --to;
    return [from, to];
  }

  // Everything that moves the window goes through the zoom's transform, which d3 keeps.
  showWindow([from, to]) {
    const [begin, end] = this.whole;
    const k = Math.min(this.deepest(), Math.max(1, (end - begin) / Math.max(to - from, 1e-9)));
    const first = Math.max(begin, Math.min(from, end - (end - begin) / k));  // no empty space beside the run
    const transform = d3.zoomIdentity.scale(k).translate(-this.base(first), 0);
    this.surface.call(this.zoom.transform, transform);
  }

  zoomed(event) {
    this.x = event.transform.rescaleX(this.base);
    this.window = this.x.domain();
    this.follow(() => this.brushPlace.call(this.brush.move, this.window.map(this.base)));
    this.schedule();
    writePlace();
  }

  brushed(event) {
    if (event.selection) this.follow(() => this.showWindow(event.selection.map(this.base.invert)));
  }

  // Zoom and brush move each other. This prevents an endless loop.
  follow(move) {
    if (this.follows) return;
    this.follows = true;
    move();
    this.follows = false;
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
    this.columns = this.readColumns();
    const highest = this.ceiling();
    this.y = d3.scaleLinear([this.lift.from * highest, (this.lift.from + this.lift.share) * highest],
      [MARGIN.top + PLOT_HEIGHT, MARGIN.top]);
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.context.save();
    this.context.beginPath();
    this.context.rect(MARGIN.left, MARGIN.top, this.width, PLOT_HEIGHT);
    this.context.clip();
    drawStacks(this);
    if (showsStrips(this)) drawStrips(this);
    drawReserved(this);
    this.context.restore();
    labelReserved(this);
    labelPeak(this);
    drawFailures(this);
    drawLife(this, app.hovered?.block ?? app.pinned);
    drawBands(this);
    this.drawAxes();
    this.drawCursor();
  }

  readColumns() {
    const { history } = this.device;
    const columns = [];
    for (let x = 0; x < this.width; ++x) {
      const [from, to] = this.eventsIn(this.x, x);
      const last = columns[columns.length - 1];
      if (last?.from === from && last.to === to) {
        ++last.width;
        continue;
      }
      const [high, low] = [history.pyramid.highest(from, to), history.pyramid.lowest(from, to)];
      const highest = history.at(high);
      columns.push({ x, width: 1, from, to, high, low, highest, lowest: high === low ? highest : history.at(low) });
    }
    return columns;
  }

  // The height of the picture in bytes. It includes reserved bytes and limits unless they are far above the allocated
  // bytes. Strips need more of the height.
  ceiling() {
    const top = d3.max(this.columns, (c) => sumOfRoles(c.highest));
    const reserved = d3.max(this.columns, (c) => c.highest[RESERVED]);
    const most = showsStrips(this) ? 1.2 : 4;
    const limits = limitsIn(this.device, this.columns).map(({ limit }) => limit).filter((l) => l <= 1.5 * reserved);
    return Math.max(512, reserved <= most * top ? Math.max(reserved, ...limits) * 1.08 : top * 1.12);
  }

  drawAxes() {
    const ticks = byteTicks(...this.y.domain(), 6);
    this.gridlines.attr("transform", `translate(${MARGIN.left},0)`)
      .call(d3.axisLeft(this.y).tickValues(ticks).tickFormat(formatTick).tickSize(-this.width).tickPadding(8));
    const format = this.byTime ? formatTime : formatExact;
    this.xAxis.attr("transform", `translate(${MARGIN.left},${MARGIN.top + PLOT_HEIGHT + this.bands})`)
      .call(d3.axisBottom(this.x).ticks(Math.max(3, this.width / 140)).tickFormat((t) =>
        (this.byTime || Number.isInteger(t) ? format(t) : "")).tickSizeOuter(0));
  }

  drawCursor() {
    const x = this.x(this.middleOf(app.hovered?.event ?? app.cursor));
    this.cursorLine.attr("x1", MARGIN.left + x).attr("x2", MARGIN.left + x).attr("y1", MARGIN.top)
      .attr("y2", MARGIN.top + PLOT_HEIGHT + this.bands).attr("display", x < 0 || x > this.width ? "none" : null);
  }

  // The event and the block at a point of the picture. The solid stack has priority over the pale one.
  under([px, py]) {
    const x = px - MARGIN.left;
    if (py > MARGIN.top + PLOT_HEIGHT) return { event: this.eventAt(this.x.invert(x)), block: NONE, band: bandUnder(this, [px, py]) };
    const column = this.columns.find((c) => x < c.x + c.width) ?? this.columns[this.columns.length - 1];
    const bytes = this.y.invert(py);
    const { allocated } = this.device.history;
    const event = bytes <= allocated[column.low] ? column.low : column.high;
    const inside = bytes >= this.y.domain()[0] && bytes < allocated[event];
    return { event, block: inside ? blockAt(this.device, event, bytes) : NONE };
  }

  pointAt(event) {
    if (this.columns) show({ hovered: this.under(pointerIn(event, this.svg.node())) });
  }

  pin(event) {
    const { event: cursor, block } = this.under(pointerIn(event, this.svg.node()));
    this.root.focus({ preventScroll: true });
    show({ cursor, pinned: block === app.pinned ? NONE : block, hovered: null });
  }

  zoomBy(factor) {
    const x = this.x(this.middleOf(app.cursor));
    const center = x < 0 || x > this.width ? this.width / 2 : x;
    this.surface.call(this.zoom.scaleBy, factor, [center, 0]);
  }

  // Shift and the wheel zoom vertically, around the pointer.
  wheel(event) {
    if (!event.shiftKey) return;
    event.preventDefault();
    const [, py] = pointerIn(event, this.svg.node());
    this.liftBy(Math.exp(-(event.deltaY || event.deltaX) / 400), this.y.invert(py) / this.ceiling());
  }

  // Zooms vertically around `center`, a share of the height, which stays in place.
  liftBy(factor, center) {
    const share = Math.min(1, Math.max(1e-3, this.lift.share / factor));
    const from = center - ((center - this.lift.from) * share) / this.lift.share;
    this.lift = { share, from: Math.min(1 - share, Math.max(0, from)) };
    this.schedule();
  }

  // The center of a vertical zoom: the pinned block, or the top of the stack at the cursor.
  centerOfLift() {
    const total = this.device.history.allocated[app.cursor];
    return (app.pinned === NONE ? total : middleInStack(this.device, app.cursor, app.pinned) ?? total) / this.ceiling();
  }

  showAll() {
    this.lift = { from: 0, share: 1 };
    this.showWindow(this.whole);
  }

  // Moves the cursor, and the window if the cursor leaves it.
  moveTo(cursor) {
    show({ cursor: Math.max(0, Math.min(this.device.count - 1, cursor)), hovered: null });
    const place = this.middleOf(app.cursor);
    const [from, to] = this.window;
    if (place >= from && place <= to) return;
    const half = (to - from) / 2;
    this.showWindow([place - half, place + half]);
  }
}

// d3 passes its event as a global up to version 5, and as an argument from version 6 on.
function listener(f) { return (event) => f(d3.event ?? event); }
function pointerIn(event, node) {
  const box = node.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
