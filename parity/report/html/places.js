// Where in a tensor it is wrong: a histogram of errors, a picture of two axes, and the values around the worst element.

const INTERVALS = ["0", "≤ 0.01", "≤ 0.1", "≤ 1", "≤ 10", "≤ 1e3", "≤ 1e6", "> 1e6"]; // in units of the bar
const PASSING_INTERVALS = 4;

/** An error in units of the bar, from the byte that stands for it: eight steps for each power of ten. */
function errorOfLevel(level) {
  return level === 0 ? 0 : level === 255 ? Infinity : 10 ** (level / 8 - 4);
}

function placesOf([counts, planes, corner, referenceValues, candidateValues], c) {
  return make(
    "div",
    { class: "places" },
    histogram(counts),
    planes[0][1].some((size) => size > 1) ? picture(planes) : null,
    windowOfValues(corner, referenceValues, candidateValues, c),
  );
}

function histogram(counts) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const bars = counts.map((count, i) => {
    const share = make("span", { class: `share ${i < PASSING_INTERVALS ? "within" : "beyond"}` });
    share.style.setProperty("width", `${count ? Math.max(1, (100 * count) / total) : 0}%`);
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, INTERVALS[i]),
      make("td", { class: "shares" }, share),
      make("td", { class: "count" }, count.toLocaleString("en")),
    );
  });
  return make("table", { class: "histogram" }, make("caption", {}, "Elements by error, in units of the bar"), ...bars);
}

function picture(planes) {
  const figure = make("figure", { class: "picture" });
  const show = (plane) => figure.querySelector("svg")?.replaceWith(drawingOf(plane));
  const caption = make("figcaption", {}, "Largest errors along ");
  if (planes.length > 1) {
    const select = make(
      "select",
      { "aria-label": "axes", onchange: () => show(planes[select.selectedIndex]) },
      ...planes.map(([axes, sizes]) => make("option", {}, axesInWords(axes, sizes))),
    );
    caption.append(select);
  } else {
    caption.append(axesInWords(planes[0][0], planes[0][1]));
  }
  figure.append(caption, drawingOf(planes[0]));
  return figure;
}

function axesInWords([down, across], [height, width]) {
  return down === across ? `axis ${across} (${width})` : `axes ${down} (${height}, down) and ${across} (${width}, across)`;
}

const TILE = 12;

function drawingOf([axes, sizes, height, width, levels]) {
  const worst = [0, 0, -1];
  const tiles = [];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = 2 * (y * width + x);
      const error = errorOfLevel(parseInt(levels.slice(at, at + 2), 16));
      if (error > worst[2]) worst.splice(0, 3, y, x, error);
      const words = `${place(y, height, sizes[0])}, ${place(x, width, sizes[1])}: ${inBars(error)}`;
      tiles.push(
        draw(
          "rect",
          { class: `tile-${heat(error)}`, x: x * TILE, y: y * TILE, width: TILE - 1, height: TILE - 1 },
          draw("title", {}, words),
        ),
      );
    }
  }
  const label = `errors along ${axesInWords(axes, sizes)}; the largest at ${place(worst[0], height, sizes[0])}, ${place(worst[1], width, sizes[1])}`;
  const box = { viewBox: `0 0 ${width * TILE} ${height * TILE}`, role: "img", "aria-label": label };
  return draw("svg", box, ...tiles);
}

/** The indices that a tile stands for. */
function place(tile, tiles, size) {
  const first = Math.floor((tile * size) / tiles);
  const last = Math.floor(((tile + 1) * size) / tiles) - 1;
  return first === last ? `${first}` : `${first}–${last}`;
}

function windowOfValues([top, left], referenceValues, candidateValues, c) {
  const columns = referenceValues[0].map((_, x) => make("th", { scope: "col" }, String(left + x)));
  const lines = referenceValues.map((row, y) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, String(top + y)),
      ...row.map((value, x) => {
        const other = candidateValues[y][x];
        return make(
          "td",
          { class: value === other ? "equal" : "different" },
          numeral(numberOf(value)),
          value === other ? "" : make("span", {}, numeral(numberOf(other))),
        );
      }),
    ),
  );
  return make(
    "div",
    { class: "window", tabindex: 0, role: "region", "aria-label": "values around the worst element" },
    make(
      "table",
      {},
      make("caption", {}, `Around the worst element along the last two axes: ${data.reference}, and below it ${c.side}`),
      make("tr", {}, make("td"), ...columns),
      ...lines,
    ),
  );
}
