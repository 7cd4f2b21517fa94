// The drawing of a Cell's program, with what differs in the candidate marked.

const LETTER = 7.3; // width, in the fixed-width font of 12 pixels
const LINE = 15;
const MAX_LETTERS = 26; // of a line; the tooltip has the whole text
const PADDING = 8;
const SHORT_KINDS = { "result of a Cell": "from", "passed value": "to" };

function graphOf(row) {
  const [call, leftOut, fields] = row.graph;
  if (!fields) {
    return make("p", { class: "hint" }, "So that the page stays small, its program isn't drawn; the JSON report has it.");
  }
  if (!fields.length) {
    return make("p", { class: "hint" }, `Its program has ${leftOut} nodes, which are too many to draw.`);
  }
  const nodes = fields.map((one) => nodeOf(one, row));
  const different = nodes.filter((node) => node.difference);
  const remarks = [
    `as in ${data.reference}; float64 where no dtype is written`,
    row.calls > 1 && `call ${call}`,
    leftOut && `only the ${nodes.length} nodes around the difference; ${leftOut} more aren't drawn`,
    nodes.some((node) => node.kind === "result of a Cell") && "Cells inside are left out: their results come in",
    different.length ? "orange differs in the candidate" : "where the candidate's differs isn't known",
    nodes.some((node) => node.added || node.more.length) && "dashed is in the candidate alone",
  ];
  const marks = different.map((node) => `${node.name}: ${node.difference}`).join("; ");
  const label = `program of ${row.path}, ${plural(nodes.length, ["node", "nodes"])}${marks ? `; ${marks}` : ""}`;
  return make(
    "figure",
    { class: "graph" },
    make(
      "figcaption",
      {},
      make("strong", {}, "Its own program"),
      ` ${remarks.filter(Boolean).join("; ")}`,
    ),
    make("div", { class: "canvas", tabindex: 0, role: "region", "aria-label": label }, drawingOfGraph(nodes, label)),
  );
}

function nodeOf([kind, title, type, difference, source, operands, more, attributes, added], row) {
  const node = {
    kind: text(kind),
    name: text(title).replace(`${row.path}.`, ""),
    type: text(type).replaceAll("float64", ""),
    difference: text(difference),
    source: text(source),
    attributes: attributes.map(text),
    operands: [...operands, ...more],
    more,
    added,
  };
  const isOp = node.kind === "op";
  const head = isOp ? node.name : `${SHORT_KINDS[node.kind] ?? node.kind} ${node.name}`;
  const equal = node.attributes.filter((attribute) => !node.difference.startsWith(attribute));
  node.isValue = !node.operands.length && !isOp;
  node.lines = [
    ["title", head],
    ...(node.type === "[]" ? [] : [["type", node.type]]),
    ...(equal.length ? [["type", equal.join(" ")]] : []),
    ...wrapped(node.difference).map((line) => ["difference", line]),
  ].map(([style, line]) => [style, shortened(line)]);
  node.whole = [isOp ? node.name : `${node.kind} ${node.name}`, node.type, ...node.attributes, node.difference, node.source].filter(Boolean).join("\n");
  node.width = 2 * PADDING + LETTER * Math.max(4, ...node.lines.map(([, line]) => [...line].length));
  node.height = 2 * PADDING + LINE * node.lines.length - 4;
  return node;
}

function shortened(line, most = MAX_LETTERS) {
  const letters = [...line];
  if (letters.length <= most) return line;
  const end = Math.floor(most / 2) - 1;
  return `${letters.slice(0, most - end - 1).join("")}…${letters.slice(-end).join("")}`;
}

function wrapped(words) {
  const lines = [];
  for (const word of words.split(" ").filter(Boolean)) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && longer.length <= MAX_LETTERS) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function drawingOfGraph(nodes, label) {
  const { points, routes, width, height } = layout(nodes);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  svg.append(...routes.flatMap(edge), ...points.slice(0, nodes.length).map(nodeElement));
  return svg;
}

/** An edge, which ends at the place of its operand: the first operand comes in at the left. */
function edge({ passed, port }) {
  const target = passed[passed.length - 1];
  const share = (port + 1) / (target.operands.length + 1);
  const end = [target.x + (share - 0.5) * Math.min(target.width, 26 * (target.operands.length + 1)), target.y];
  const source = passed[0];
  let at = [source.x, source.y + source.height];
  let path = `M${at}`;
  for (const point of passed.slice(1)) {
    const next = point === target ? [end[0], end[1] - 6] : [point.x, point.y];
    const middle = (at[1] + next[1]) / 2;
    path += `C${at[0]},${middle} ${next[0]},${middle} ${next}`;
    at = point.isBend ? [point.x, point.y + point.height] : next;
    if (point.isBend) path += `L${at}`;
  }
  const added = port >= target.operands.length - target.more.length || source.added || target.added;
  const style = added ? " is-added" : "";
  return [
    draw("path", { class: `edge${style}`, d: path }),
    draw("path", { class: `arrow${style}`, d: `M${end}l-4,-7h8z` }),
  ];
}

function nodeElement(node) {
  const style = [
    "node",
    node.kind === "op" ? "" : "is-value",
    node.difference ? "is-different" : "",
    node.added ? "is-added" : "",
  ];
  const rx = node.kind === "op" ? 3 : 12;
  const box = { x: node.x - node.width / 2, y: node.y, width: node.width, height: node.height, rx };
  return draw(
    "g",
    { class: style.filter(Boolean).join(" ") },
    draw("title", {}, node.whole),
    draw("rect", box),
    ...node.lines.map(([part, line], i) =>
      draw("text", { class: part, x: node.x, y: node.y + PADDING + 9 + LINE * i }, line),
    ),
  );
}

/** Scroll a canvas to the first node that differs. */
function scrollToMark(canvas) {
  const mark = canvas.querySelector(".is-different rect");
  const svg = canvas.querySelector("svg");
  const middle = svg.clientWidth / 2;
  const [x, y] = mark
    ? [Number(mark.getAttribute("x")) + mark.getAttribute("width") / 2, Number(mark.getAttribute("y"))]
    : [middle, 0];
  canvas.scrollLeft = x - canvas.clientWidth / 2;
  canvas.scrollTop = y - canvas.clientHeight / 3;
}
