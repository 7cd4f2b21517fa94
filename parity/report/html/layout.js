// Places the nodes of a graph in layers (Sugiyama, Tagawa and Toda, 1981): operands above what uses them.

const GAP = 16; // between the nodes of a layer
const LAYER_GAP = 34;
const SWEEPS = 8;

/**
 * Return the places of nodes and the routes of edges.
 * A node has `width`, `height`, `operands` (numbers of nodes before it) and `isValue`, for one that no node computes.
 */
function layout(nodes) {
  const layers = layersOf(nodes);
  const points = nodes.map((node, i) => ({ ...node, layer: layers[i], above: [], below: [], x: 0 }));
  const routes = points.flatMap((point, i) => point.operands.map((operand, port) => route(points, operand, i, port)));
  const rows = [];
  for (const point of points) (rows[point.layer] ??= []).push(point);
  for (let sweep = 0; sweep < SWEEPS; sweep++) order(rows, sweep % 2 === 0);
  for (const row of rows) spread(row, row.map(() => 0));
  for (let sweep = 0; sweep < SWEEPS; sweep++) align(rows, sweep % 2 === 0);
  let y = GAP;
  for (const row of rows) {
    const height = Math.max(...row.map((point) => point.height));
    for (const point of row) {
      if (point.isBend) point.height = height;
      point.y = y + (height - point.height) / 2;
    }
    y += height + LAYER_GAP;
  }
  const left = Math.min(...points.map((point) => point.x - point.width / 2)) - GAP;
  for (const point of points) point.x -= left;
  const width = Math.max(...points.map((point) => point.x + point.width / 2)) + GAP;
  return { points, routes, width, height: y - LAYER_GAP + GAP };
}

/** The layer of each node: below its operands; a value that no node computes is right above its first user. */
function layersOf(nodes) {
  const layers = nodes.map(() => 0);
  nodes.forEach((node, i) => {
    for (const operand of node.operands) layers[i] = Math.max(layers[i], layers[operand] + 1);
  });
  const users = nodes.map(() => Infinity);
  nodes.forEach((node, i) => {
    for (const operand of node.operands) users[operand] = Math.min(users[operand], layers[i]);
  });
  return layers.map((layer, i) => (nodes[i].isValue && Number.isFinite(users[i]) ? users[i] - 1 : layer));
}

/** Connect two nodes, through a bend in each layer between them, which all edges of the upper node share. */
function route(points, from, to, port) {
  const source = points[from];
  source.through ??= [];
  const passed = [source];
  for (let layer = source.layer + 1; layer < points[to].layer; layer++) {
    let point = source.through[layer];
    if (!point) {
      point = { layer, isBend: true, width: 2, height: 0, operands: [], above: [], below: [], x: 0 };
      source.through[layer] = point;
      points.push(point);
      connect(passed[passed.length - 1], point);
    }
    passed.push(point);
  }
  connect(passed[passed.length - 1], points[to]);
  return { passed: [...passed, points[to]], port };
}

function connect(upper, lower) {
  upper.below.push(lower);
  lower.above.push(upper);
}

function mean(points, of, otherwise) {
  return points.length ? points.reduce((sum, point) => sum + of(point), 0) / points.length : otherwise;
}

/** Sort each layer by the mean position of the neighbours in the layer before, going down or up. */
function order(rows, down) {
  for (const row of rows) row.forEach((point, i) => (point.position = i / row.length));
  for (const row of down ? rows : [...rows].reverse()) {
    for (const point of row) {
      point.wanted = mean(down ? point.above : point.below, (other) => other.position, point.position);
    }
    row.sort((a, b) => a.wanted - b.wanted);
    row.forEach((point, i) => (point.position = i / row.length));
  }
}

/** Move each node towards its neighbours in the layer before, without changing the order. */
function align(rows, down) {
  for (const row of down ? rows : [...rows].reverse()) {
    spread(
      row,
      row.map((point) => mean(down ? point.above : point.below, (other) => other.x, point.x)),
    );
  }
}

/** Place a layer's nodes as near to the wanted places as their widths allow: between the two greedy placements. */
function spread(row, wanted) {
  const apart = (i) => (row[i].width + row[i + 1].width) / 2 + GAP;
  const right = [...wanted];
  const left = [...wanted];
  for (let i = 1; i < row.length; i++) right[i] = Math.max(right[i], right[i - 1] + apart(i - 1));
  for (let i = row.length - 2; i >= 0; i--) left[i] = Math.min(left[i], left[i + 1] - apart(i));
  row.forEach((point, i) => (point.x = (left[i] + right[i]) / 2));
}
