// The axes of the small line charts: bytes vertically, steps or events horizontally, as wide as the view.

const CHART = { left: 76, right: 34, bottom: 26, top: 18 };

// Steps or events from 0 to `last`, bytes from 0 to `highest`. `label` returns the text of a horizontal tick.
function lineChart(view, height, last, highest, label) {
  const width = view.clientWidth;
  const x = d3.scaleLinear([0, Math.max(1, last)], [CHART.left + 10, width - CHART.right]);
  const y = d3.scaleLinear([0, highest * 1.05 || 512], [height - CHART.bottom, CHART.top]);
  const svg = d3.create("svg").attr("width", width).attr("height", height).attr("class", "chart");
  svg.append("g").attr("class", "axis y").attr("transform", `translate(${CHART.left},0)`)
    .call(d3.axisLeft(y).tickValues(byteTicks(0, y.domain()[1], (y.range()[0] - y.range()[1]) / 30)).tickFormat(formatTick)
      .tickSize(CHART.left + CHART.right - width));
  svg.append("g").attr("class", "axis x").attr("transform", `translate(0,${height - CHART.bottom})`)
    .call(d3.axisBottom(x).ticks(Math.min(last, width / 140)).tickSizeOuter(0).tickPadding(7)
      .tickFormat((i) => (Number.isInteger(i) ? label(i) : "")));
  return { svg, x, y };
}
