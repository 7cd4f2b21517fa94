// The line beside the network: how large the error is after each Cell, on a log axis.

const NUMBER_WIDTH = 44; // of `1e-16`, with a space beside it

/** The values of the line for each side, by row, and what they are: end to end where that is known, else the largest of each Cell. */
function errorLines() {
  if (data.travel.length) {
    const lines = data.travel.map(([side, errors]) => ({
      side,
      values: new Map(errors.map(([number, value]) => [text(number), numberOf(value)])),
    }));
    return {
      title: "error end to end, relative",
      lines: lines.map(({ side, values }) => ({ side, valueOf: (row) => values.get(row.path) ?? null })),
      inBars: false,
    };
  }
  const sides = [...new Set(columns.map((column) => column.side))];
  const valueOf = (side) => (row, isOpen) => {
    const values = (isOpen ? row.values : row.worstInside).filter((_, i) => columns[i].side === side);
    const { bars } = worstOf(values.filter((value) => typeof value.bars === "number"));
    return bars;
  };
  return {
    title: "largest error, 1 = the largest that passes",
    lines: sides.map((side) => ({ side, valueOf: valueOf(side) })),
    inBars: true,
  };
}

/** The log axis of the lines between two edges. */
function axisOfLines({ lines, inBars: bars }, left, right) {
  const values = rows.flatMap((row) => lines.map(({ valueOf }) => valueOf(row, true))).filter((value) => value !== null);
  const exponents = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
  const least = exponents.reduce((one, other) => Math.min(one, other), bars ? -1 : -4);
  const low = bars ? Math.max(-3, Math.floor(least)) : Math.floor(least);
  const most = exponents.reduce((one, other) => Math.max(one, other), Math.max(low + 1, bars ? 1 : low + 1));
  const high = Math.ceil(most) + (values.every(Number.isFinite) ? 0 : 1); // a place above all numbers
  const x = (exponent) => left + ((clamp(exponent, low, high) - low) / (high - low)) * (right - left);
  const place = (value) => x(value > 0 ? (Number.isFinite(value) ? Math.log10(value) : high) : Number.isNaN(value) ? high : low);
  return { low, high, x, place, inBars: bars };
}

/** The lines of the axis between two heights; the numbers are in the head. */
function gridOfLines(axis, top, bottom) {
  return ticks(axis.low, axis.high, true)[0].map((tick) =>
    draw("line", {
      class: axis.inBars && tick === 0 ? "bar-line" : "grid",
      x1: axis.x(tick), x2: axis.x(tick), y1: top, y2: bottom,
    }),
  );
}

/** The name and the numbers of the axis, and which line is whose. */
function headOfLines({ title, lines }, axis, width, right) {
  const all = ticks(axis.low, axis.high, true)[0];
  const each = all.length > 1 ? Math.ceil(NUMBER_WIDTH / (axis.x(all[1]) - axis.x(all[0]))) : 1;
  const numbers = all
    .filter((_, number) => number % each === 0)
    .map((tick) => draw("text", { x: axis.x(tick), y: 34, "text-anchor": "middle" }, power(tick)));
  const keys = lines.map(({ side }, number) => make("span", {}, swatch(1 + (number % 3)), name(side)));
  const head = draw(
    "svg",
    { width, height: 40, viewBox: `0 0 ${width} 40`, "aria-hidden": "true" },
    draw("text", { class: "axis-name", x: right, y: 14, "text-anchor": "end" }, title),
    ...numbers,
  );
  return [lines.length > 1 ? make("p", { class: "keys-of-chart" }, ...keys) : null, head].filter(Boolean);
}

/** Each side's line through the boxes: an open one returns at its end. */
function linesThrough(boxes, { lines, inBars: bars }, axis) {
  return lines.flatMap(({ side, valueOf }, number) => {
    const style = `curve-${1 + (number % 3)}`;
    const points = boxes
      .map((box) => ({ row: box.row, value: valueOf(box.row, box.isOpen), y: box.isOpen ? box.bottom : box.y + BOX.height / 2 }))
      .filter(({ value }) => value !== null)
      .sort((one, other) => one.y - other.y);
    return [
      draw("polyline", { class: `curve ${style}`, points: points.map(({ value, y }) => `${axis.place(value)},${y}`).join(" ") }),
      ...points.map(({ row, value, y }) => {
        const fails = FAILING.has(row.verdict) && (!bars || value > 1); // another side may pass
        const words = `${row.path}, ${side}: ${bars ? inBars(value) : numeral(value)}${fails ? ", fails itself" : ""}`;
        const point = { class: fails ? "point is-fault" : `point ${style}`, cx: axis.place(value), cy: y, r: fails ? 5 : 3 };
        return draw("circle", point, draw("title", {}, words));
      }),
    ];
  });
}
