// Elements, error bars and charts.

/** Make an element: attributes by name, `on…` listeners, `class`; children are elements or texts. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A text of the user's, which keeps its own direction of writing. */
function name(value, attributes = {}) {
  return make("bdi", attributes, value);
}

const BAR_WIDTH = 200;
const BAR_HEIGHT = 14;

/** The log axis on which all errors of a list are drawn: powers of ten of the bar. */
function axisOf(fractions) {
  const exponents = fractions.filter((f) => typeof f === "number" && Number.isFinite(f) && f > 0).map(Math.log10);
  const low = Math.max(-6, Math.min(-2, Math.floor(Math.min(0, ...exponents))));
  const high = Math.max(1, Math.ceil(Math.max(0, ...exponents)));
  const place = (fraction) => {
    if (fraction === Infinity) return BAR_WIDTH;
    const exponent = fraction > 0 ? Math.log10(fraction) : low;
    return (BAR_WIDTH * (Math.max(low, exponent) - low)) / (high - low);
  };
  return { low, high, place };
}

/** An error bar in units of the bar; the line shows where the bar is. */
function errorBar(fraction, axis) {
  const known = typeof fraction === "number";
  const svg = draw("svg", {
    class: "error-bar",
    viewBox: `0 0 ${BAR_WIDTH} ${BAR_HEIGHT}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": known ? `error ${inBars(fraction)} times the bar` : "not compared",
  });
  svg.append(draw("rect", { class: "track", x: 0, y: 5, width: BAR_WIDTH, height: 4, rx: 2 }));
  if (known) {
    const width = Math.max(2, axis.place(fraction));
    const passes = fraction <= 1;
    svg.append(draw("rect", { class: passes ? "within" : "beyond", x: 0, y: 3, width, height: 8, rx: 2 }));
  }
  const bar = axis.place(1);
  svg.append(draw("line", { class: "bar-line", x1: bar, x2: bar, y1: 0, y2: BAR_HEIGHT }));
  return svg;
}

/** The name of an axis and its labels: its ends, and the bar. */
function axisLabels(axis) {
  const labels = make(
    "span",
    { class: "axis" },
    make("span", {}, power(axis.low)),
    make("span", {}, power(axis.high)),
  );
  const share = axis.place(1) / BAR_WIDTH;
  if (share > 0.3 && share < 0.75) {
    const middle = make("span", { class: "at-bar" }, "bar");
    middle.style.setProperty("left", `${100 * share}%`);
    labels.append(middle);
  }
  return make("span", { class: "axis-of-list", "aria-hidden": "true" }, make("span", {}, "error ÷ bar"), labels);
}

function power(exponent) {
  return exponent === 0 ? "1" : exponent === 1 ? "10" : `1e${exponent}`;
}

const CHART = { width: 360, height: 200, left: 52, right: 14, top: 38, bottom: 40 };

/** A chart over the steps, with a mark at the first step that differs. */
function chart({ title, curves, inBars: bars, differing }) {
  const steps = Math.max(...curves.map(([, values]) => values.length));
  const known = curves
    .flatMap(([, values]) => values)
    .map(numberOf)
    .filter(Number.isFinite);
  const [low, high, scale] = bars ? logRange(known) : linearRange(known);
  const { width, height, left, right, top, bottom } = CHART;
  const x = (step) => left + ((step - 0.5) / steps) * (width - left - right);
  const y = (value) => {
    const share = (scale(value) - low) / (high - low || 1);
    return height - bottom - Math.min(1, Math.max(0, share)) * (height - top - bottom);
  };
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": describe(title, curves, bars, differing),
  });
  if (differing !== null) {
    const band = (width - left - right) / steps;
    svg.append(
      draw("rect", {
        class: "differing",
        x: x(differing) - band / 2,
        y: top,
        width: Math.max(2, band),
        height: height - top - bottom,
      }),
      draw(
        "text",
        {
          class: "differing-label",
          x: clamp(x(differing), left + 44, width - right - 44),
          y: top - 8,
          "text-anchor": "middle",
        },
        `differs at step ${differing}`,
      ),
    );
  }
  const [found, between] = ticks(low, high, bars);
  for (const tick of found) {
    const at = height - bottom - ((tick - low) / (high - low || 1)) * (height - top - bottom);
    svg.append(
      draw("line", { class: bars && tick === 0 ? "bar-line" : "grid", x1: left, x2: width - right, y1: at, y2: at }),
      draw(
        "text",
        { x: left - 6, y: at + 4, "text-anchor": "end" },
        bars ? (tick === 0 ? "bar 1" : power(tick)) : decimals(tick, between),
      ),
    );
  }
  svg.append(
    draw("text", { class: "axis-name", x: 2, y: 11 }, bars ? "error, 1 = the largest that passes" : title),
    draw("text", { class: "axis-name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "step"),
  );
  const every = Math.ceil(steps / 8);
  for (let step = 1; step <= steps; step += every) {
    svg.append(draw("text", { x: x(step), y: height - 22, "text-anchor": "middle" }, String(step)));
  }
  curves.forEach(([side, values], number) => {
    const points = values
      .map((value, i) => [i + 1, numberOf(value)])
      .filter(([, value]) => value !== null && !Number.isNaN(value));
    const path = points.map(([step, value]) => `${x(step)},${y(value)}`).join(" ");
    svg.append(draw("polyline", { class: `curve curve-${number % 4}`, points: path }));
    if (steps > 60) return;
    for (const [step, value] of points) {
      const words = `${side}, step ${step}: ${bars ? inBars(value) : numeral(value)}`;
      svg.append(
        draw(
          "circle",
          { class: `point curve-${number % 4}`, cx: x(step), cy: y(value), r: 3 },
          draw("title", {}, words),
        ),
      );
    }
  });
  const keys = curves.map(([side], number) => make("span", { class: "key" }, swatch(number % 4), name(side)));
  return make(
    "figure",
    { class: "chart" },
    make("figcaption", {}, make("strong", {}, title), make("span", { class: "keys-of-chart" }, ...keys)),
    svg,
  );
}

function swatch(number) {
  return draw(
    "svg",
    { viewBox: "0 0 24 8", class: "swatch", "aria-hidden": "true" },
    draw("line", { class: `curve curve-${number}`, x1: 1, x2: 23, y1: 4, y2: 4 }),
  );
}

function describe(title, curves, bars, differing) {
  const ends = curves.map(([side, values]) => {
    const last = numberOf(values[values.length - 1]);
    return `${side} ends at ${bars ? inBars(last) : numeral(last)}`;
  });
  const mark = differing === null ? "nothing differs" : `differs from step ${differing} on`;
  return `${title}: ${ends.join(", ")}; ${mark}`;
}

function logRange(values) {
  const exponents = values.filter((value) => value > 0).map(Math.log10);
  const low = Math.max(-6, Math.floor(Math.min(-1, ...exponents)));
  const high = Math.ceil(Math.max(0.5, ...exponents));
  return [low, high, (value) => (value > 0 ? Math.log10(value) : low)];
}

function linearRange(values) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - room, high + room, (value) => value];
}

/** Up to six round numbers between two, and their distance: whole ones, else multiples of 1, 2 or 5 powers of ten. */
function ticks(low, high, whole) {
  const rough = (high - low) / 6;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const every = whole ? Math.ceil(rough) : unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
  const found = [];
  for (let tick = Math.ceil(low / every) * every; tick <= high; tick += every) found.push(tick);
  return [found, every];
}

/** A number with the digits that tell it from the next one. */
function decimals(value, between) {
  const small = Math.max(Math.abs(value), between);
  if (small >= 1e6 || small < 1e-3) return value.toExponential(1);
  return value.toFixed(Math.max(0, -Math.floor(Math.log10(between))));
}

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}
