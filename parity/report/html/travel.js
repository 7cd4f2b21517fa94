// The chart of how an error travels: the largest end-to-end error of each Cell, in the order in which they return.

const TRAVEL = { width: 760, height: 210, left: 52, right: 14, top: 12, bottom: 30 };
const EVERY_POINT = 150; // Cells up to which each has a point; beyond, only those that fail

function travelChart([side, errors]) {
  const points = errors.map(([number, value]) => ({ path: text(number), value: numberOf(value) }));
  for (const point of points) point.fails = FAILING.has(rowOfPath.get(point.path)?.verdict);
  const exponents = points.map((point) => Math.log10(point.value)).filter(Number.isFinite);
  const low = Math.floor(Math.min(-4, ...exponents));
  const beyond = points.every((point) => Number.isFinite(point.value)) ? 0 : 1; // a place above all numbers
  const high = Math.ceil(Math.max(low + 1, ...exponents)) + beyond;
  const { width, height, left, right, top, bottom } = TRAVEL;
  const x = (i) => left + ((i + 0.5) / points.length) * (width - left - right);
  const at = (exponent) => height - bottom - ((exponent - low) / (high - low)) * (height - top - bottom);
  const y = ({ value }) => at(value === 0 ? low : Number.isFinite(value) ? Math.log10(value) : high);
  const largest = points.reduce((one, other) => (other.value > one.value ? other : one));
  const label = `error of ${side} end to end over ${points.length} Cells; the largest is ${numeral(largest.value)}, in ${largest.path}`;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const tick of ticks(low, high, true)[0]) {
    svg.append(
      draw("line", { class: "grid", x1: left, x2: width - right, y1: at(tick), y2: at(tick) }),
      draw("text", { x: left - 6, y: at(tick) + 4, "text-anchor": "end" }, power(tick)),
    );
  }
  svg.append(
    draw("polyline", { class: "curve curve-1", points: points.map((point, i) => `${x(i)},${y(point)}`).join(" ") }),
    draw("text", { x: left, y: height - 9 }, "first to return"),
    draw("text", { x: width - right, y: height - 9, "text-anchor": "end" }, "last"),
  );
  points.forEach((point, i) => {
    if (!point.fails && points.length > EVERY_POINT) return;
    const words = `${point.path}: ${numeral(point.value)}${point.fails ? ", fails itself" : ""}`;
    const style = point.fails ? "point is-fault" : "point curve-1";
    svg.append(
      draw("circle", { class: style, cx: x(i), cy: y(point), r: point.fails ? 5 : 3 }, draw("title", {}, words)),
    );
  });
  return make(
    "figure",
    { class: "chart travel" },
    make(
      "figcaption",
      {},
      make("strong", {}, `How the error of ${side} travels`),
      make("span", {}, "largest error of each Cell's outputs end to end, relative to their largest element; orange fails itself"),
    ),
    svg,
  );
}
