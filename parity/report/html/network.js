// The picture of the whole network: its Cells as boxes within boxes, and a line of errors beside them.

const network = document.getElementById("network-tree");
const networkSearch = document.getElementById("network-search");
const LINE_ROOM = { share: 0.36, least: 110, most: 320, edge: 14 }; // width of the line's column
const BEYOND = 200; // pixels above and below what is in sight that are drawn, too

const canvas = draw("svg", { role: "none" });
const view = { boxes: [], active: rows[0], query: "", matching: [], around: new Set(), lines: null, axis: null };

/** Draw the boxes anew: the rows that are expanded in the tree. */
function renderNetwork() {
  if (!view.lines) return;
  const width = network.clientWidth;
  const room = clamp(width * LINE_ROOM.share, LINE_ROOM.least, LINE_ROOM.most);
  const { boxes, height } = boxesOf(expandedRows(), width - room);
  view.boxes = boxes;
  view.axis = axisOfLines(view.lines, width - room + LINE_ROOM.edge, width - LINE_ROOM.edge - 6);
  canvas.setAttribute("width", width);
  canvas.setAttribute("height", height);
  canvas.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const head = headOfLines(view.lines, view.axis, width, width - LINE_ROOM.edge);
  document.getElementById("network-axis").replaceChildren(...head);
  renderBoxes();
}

/** Draw what is in sight. */
function renderBoxes() {
  const top = network.scrollTop - BEYOND;
  const bottom = network.scrollTop + network.clientHeight + BEYOND;
  const visible = view.boxes.filter((box) => box.bottom >= top && box.y <= bottom);
  const active = activeBox();
  const isFaint = ({ row, isOpen }) => view.query && !view.around.has(row.index) && !isOpen;
  canvas.replaceChildren(
    ...gridOfLines(view.axis, Math.max(0, top), Math.min(bottom, canvas.height.baseVal.value)),
    ...visible.map((box) => boxElement(box, { isActive: box === active, isFaint: isFaint(box) })),
    ...visible.flatMap(arrowBefore),
    ...linesThrough(visible, view.lines, view.axis),
  );
  if (visible.includes(active)) network.setAttribute("aria-activedescendant", boxName(active.row));
  else network.removeAttribute("aria-activedescendant");
}

/** The box with the keyboard's place: that of the active row, or of the collapsed one around it. */
function activeBox() {
  return view.boxes.findLast(({ row }) => row.index <= view.active.index && view.active.index < row.end);
}

/** Make a box the active one and bring it into sight. */
function activateBox(box) {
  view.active = box.row;
  if (box.y < network.scrollTop) network.scrollTop = box.y - BOX.gap;
  const bottom = box.y + BOX.height + BOX.gap;
  if (bottom > network.scrollTop + network.clientHeight) network.scrollTop = bottom - network.clientHeight;
  renderBoxes();
}

/** Make a row the active one, wherever it is in the network. */
function activateInNetwork(row) {
  if (!view.lines) return;
  openAround(row);
  view.active = row;
  update();
  activateBox(activeBox());
}

function toggleBox(box, open = !box.isOpen) {
  if (!box.isParent || open === box.isOpen) return;
  if (open) state.open.add(box.row.index);
  else state.open.delete(box.row.index);
  view.active = box.row;
  update();
  activateBox(activeBox());
}

function onNetworkKey(event) {
  const box = activeBox();
  const page = Math.max(1, Math.floor(network.clientHeight / (BOX.height + BOX.gap)) - 1);
  const move = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (move !== undefined) activateBox(view.boxes[clamp(box.place + move, 0, view.boxes.length - 1)]);
  else if (event.key === "ArrowRight") {
    if (box.isOpen) activateBox(view.boxes[box.place + 1]);
    else toggleBox(box, true);
  } else if (event.key === "ArrowLeft") {
    if (box.isOpen) toggleBox(box, false);
    else if (box.level > 1) activateBox(view.boxes.findLast((outer) => outer.place < box.place && outer.level < box.level));
  } else if (event.key === "Enter" || event.key === " ") {
    show(box.row, network);
    detail.focus();
  } else return;
  event.preventDefault();
}

function onNetworkClick(event) {
  const element = event.target.closest("[data-box]");
  if (!element) return;
  const box = view.boxes[Number(element.dataset.box)];
  if (event.target.closest(".twist")) toggleBox(box);
  else {
    activateBox(box);
    show(box.row, network);
  }
}

/** Look for Cells: what doesn't match is faint, and Enter goes from one that does to the next. */
function searchNetwork() {
  view.query = networkSearch.value.trim().toLowerCase();
  view.matching = view.query ? rows.filter((row) => hasWords(row, view.query)) : [];
  view.around = new Set();
  for (const row of view.matching) {
    for (let at = row.index; at >= 0 && !view.around.has(at); at = rows[at].parent) view.around.add(at);
  }
  const count = view.query ? `${view.matching.length} of ${plural(rows.length, data.noun)}` : "";
  document.getElementById("network-count").textContent = count;
  renderBoxes();
}

function onNetworkSearchKey(event) {
  if (event.key === "Escape") {
    networkSearch.value = "";
    searchNetwork();
    network.focus();
  } else if (event.key === "Enter" && view.matching.length) {
    const next = event.shiftKey
      ? view.matching.findLast((row) => row.index < view.active.index)
      : view.matching.find((row) => row.index > view.active.index);
    activateInNetwork(next ?? view.matching[event.shiftKey ? view.matching.length - 1 : 0]);
  } else if (event.key === "ArrowDown") network.focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Show the picture, if the rows are Cells. */
function openNetwork() {
  if (data.charts.length || rows.length < 2) return;
  document.getElementById("network").hidden = false;
  view.lines = errorLines();
  view.active = rows.find((row) => FAILING.has(row.verdict)) ?? rows[0];
  network.append(canvas);
  network.addEventListener("scroll", renderBoxes);
  network.addEventListener("keydown", onNetworkKey);
  network.addEventListener("click", onNetworkClick);
  networkSearch.addEventListener("input", searchNetwork);
  networkSearch.addEventListener("keydown", onNetworkSearchKey);
  window.addEventListener("resize", renderNetwork);
}
