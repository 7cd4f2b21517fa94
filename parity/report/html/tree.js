// The rows as a tree, or as a list where they are sorted, searched or filtered. Only those in sight have elements.

const ROW_HEIGHT = 32; // as in page.css
const MARGIN = 8; // rows beyond what is in sight
const AT_A_GLANCE = 40; // rows that a passing tree shows at first

const tree = document.getElementById("tree");
const state = {
  query: "",
  filter: "all",
  sort: null,
  descending: true,
  open: new Set(),
  shown: [],
  active: 0,
  selected: null,
  openedFrom: null, // the tree or the picture
};

const body = make("div", { class: "rows", role: "rowgroup" });
const head = make("div", { class: "row head", role: "row", "aria-rowindex": "1" });
const elements = new Map(); // of the rows in sight, by their place

function isFlat() {
  return Boolean(state.query) || state.filter !== "all" || state.sort !== null;
}

/** Open what leads to a failure; where nothing fails, as many levels as can be seen at a glance. */
function openAtFirst() {
  const parents = rows.filter((row) => row.end > row.index + 1);
  if (rows.some((row) => FAILING.has(row.verdict))) {
    for (const row of parents) if (row.failing || row.level === 1) state.open.add(row.index);
    return;
  }
  for (let level = 1; parents.some((row) => row.level === level); level += 1) {
    if (rows.filter((row) => row.level <= level + 1).length > AT_A_GLANCE && level > 1) return;
    for (const row of parents) if (row.level === level) state.open.add(row.index);
  }
}

/** Whether a row's path or class has these words, in small letters, in it. */
function hasWords(row, words) {
  return row.path.toLowerCase().includes(words) || row.className.toLowerCase().includes(words);
}

function isChosen(row) {
  const words = state.query.toLowerCase();
  const fits =
    state.filter === "all" || FAILING.has(row.verdict) || (state.filter === "affected" && row.verdict === AFFECTED);
  return fits && (!words || hasWords(row, words));
}

/** The rows of the tree that aren't inside a collapsed one. */
function expandedRows() {
  const expanded = [];
  for (let i = 0; i < rows.length; i = state.open.has(i) ? i + 1 : rows[i].end) expanded.push(rows[i]);
  return expanded;
}

function listRows() {
  if (!isFlat()) return expandedRows();
  const found = counted.filter(isChosen);
  if (state.sort === null) return found;
  const sign = state.descending ? -1 : 1;
  const key =
    state.sort === "path" ? null : (row) => rank(state.sort === "worst" ? worstOf(row.values) : row.values[state.sort]);
  return found.sort((one, other) => {
    if (key === null) return sign * one.path.localeCompare(other.path, "en", { numeric: true });
    const [a, b] = [key(one), key(other)];
    if (a === b) return one.index - other.index;
    return a < 0 ? 1 : b < 0 ? -1 : sign * (a < b ? -1 : 1);
  });
}

/** Show the rows anew; the row `active` keeps the focus if it is still there. */
function update(active = state.shown[state.active]) {
  state.shown = listRows();
  state.active = Math.max(0, state.shown.indexOf(active));
  body.style.setProperty("height", `${Math.max(1, state.shown.length) * ROW_HEIGHT}px`);
  tree.setAttribute("aria-rowcount", String(state.shown.length + 1));
  for (const element of elements.values()) element.remove();
  elements.clear();
  document.getElementById("count").textContent = isFlat()
    ? `${state.shown.length} of ${plural(counted.length, data.noun)}`
    : plural(counted.length, data.noun);
  renderHead();
  renderRows();
  renderNetwork();
}

function renderHead() {
  const header = (key, side, words, label = words) => {
    const sorted = state.sort === key ? (state.descending ? "descending" : "ascending") : "none";
    const arrow = { descending: "▾", ascending: "▴", none: "" }[sorted];
    const kind = key === "path" ? "name" : key === "worst" ? "worst" : "value";
    return make(
      "div",
      { role: "columnheader", class: `cell ${kind}`, "aria-sort": sorted },
      make(
        "button",
        { type: "button", "data-key": key, title: "Sort", "aria-label": label, onclick: () => sortBy(key) },
        name(side, { class: "side" }),
        side && " ",
        make("span", { class: "words" }, `${words}${arrow && " "}${arrow}`),
      ),
    );
  };
  const focused = document.activeElement?.dataset?.key;
  head.replaceChildren(
    header("path", "", data.noun[0][0].toUpperCase() + data.noun[0].slice(1)),
    make("div", { role: "columnheader", class: "cell verdict-cell" }, "verdict"),
    ...columns.map((column, i) =>
      header(i, columns[i - 1]?.side === column.side ? "" : column.side, column.name, `${column.side} ${column.name}`),
    ),
    header("worst", "", "worst"),
  );
  if (focused !== undefined) head.querySelector(`[data-key="${focused}"]`)?.focus();
}

function sortBy(key) {
  if (state.sort !== key) Object.assign(state, { sort: key, descending: key !== "path" });
  else if (state.descending === (key !== "path")) state.descending = !state.descending;
  else state.sort = null;
  tree.scrollTop = 0;
  update();
}

function renderRows() {
  const first = Math.max(0, Math.floor(tree.scrollTop / ROW_HEIGHT) - MARGIN);
  const last = Math.min(state.shown.length, Math.ceil((tree.scrollTop + tree.clientHeight) / ROW_HEIGHT) + MARGIN);
  const kept = (place) => (place >= first && place < last) || place === state.active;
  for (const [place, element] of elements) {
    if (!kept(place)) {
      element.remove();
      elements.delete(place);
    }
  }
  for (let place = first; place < last; place += 1) ensure(place);
  if (state.shown.length) ensure(state.active);
}

function ensure(place) {
  if (elements.has(place)) return elements.get(place);
  const element = rowElement(state.shown[place], place);
  elements.set(place, element);
  body.append(element);
  return element;
}

/** The verdict of a collapsed row: the worst of its own and of those inside. */
function verdictWithInside(row) {
  if (FAILING.has(row.verdict)) return row.verdict;
  return row.failing ? "fail" : row.affected ? AFFECTED : row.verdict;
}

function rowElement(row, place) {
  const flat = isFlat();
  const parent = row.end > row.index + 1 && !flat;
  const open = state.open.has(row.index);
  const collapsed = parent && !open;
  const values = collapsed ? row.worstInside : row.values;
  const verdict = collapsed ? verdictWithInside(row) : row.verdict;
  const [mark, words] = VERDICTS[verdict];
  const valueCell = (value, label, kind) =>
    make(
      "div",
      {
        role: "gridcell",
        class: `cell ${kind} heat-${heat(value.bars)}`,
        "aria-label": `${label}: ${value.words || "nothing"}`,
      },
      value.words,
    );
  const element = make(
    "div",
    {
      class: `row ${verdictClass(verdict)}`,
      role: "row",
      "aria-rowindex": String(place + 2),
      "aria-level": String(flat ? 1 : row.level),
      "aria-expanded": parent ? String(open) : null,
      "aria-selected": String(state.selected === row),
      tabindex: place === state.active ? "0" : "-1",
      "data-place": String(place),
    },
    make(
      "div",
      { role: "rowheader", class: "cell name" },
      make("span", { class: "twist", "aria-hidden": "true" }, parent ? (open ? "▾" : "▸") : ""),
      name(flat ? row.path : row.label, { class: "label-of-row", title: row.path }),
      name(row.className, { class: "class" }),
      collapsed ? make("span", { class: "inside" }, String(row.end - row.index)) : null,
    ),
    make(
      "div",
      { role: "gridcell", class: "cell verdict-cell" },
      make(
        "span",
        { class: `verdict ${verdictClass(verdict)}` },
        mark,
        make("span", { class: "words" }, ` ${words}${verdict === row.verdict ? "" : " inside"}`),
      ),
    ),
    ...values.map((value, i) => valueCell(value, `${columns[i].side} ${columns[i].name}`, "value")),
    valueCell(worstOf(values), "worst", "worst"),
  );
  element.style.setProperty("top", `${place * ROW_HEIGHT}px`);
  element.style.setProperty("--level", String(flat ? 0 : Math.min(row.level - 1, 12)));
  return element;
}

/** Move the focus to a row and bring it into sight. */
function activate(place, focus = true) {
  elements.get(state.active)?.setAttribute("tabindex", "-1");
  state.active = clamp(place, 0, Math.max(0, state.shown.length - 1));
  const top = state.active * ROW_HEIGHT;
  const room = tree.clientHeight - head.offsetHeight - ROW_HEIGHT;
  if (top < tree.scrollTop) tree.scrollTop = top;
  else if (top > tree.scrollTop + room) tree.scrollTop = top - room;
  renderRows();
  const element = elements.get(state.active);
  element?.setAttribute("tabindex", "0");
  if (focus) element?.focus({ preventScroll: true });
}

function toggle(row, open = !state.open.has(row.index)) {
  if (isFlat() || row.end === row.index + 1) return;
  if (open) state.open.add(row.index);
  else state.open.delete(row.index);
  update(row);
  activate(state.active);
}

/** Open all rows that a row is inside. */
function openAround(row) {
  for (let above = row.parent; above >= 0; above = rows[above].parent) state.open.add(above);
}

/** Bring a row into sight, wherever it is in the tree. */
function reveal(row) {
  if (isFlat() && !state.shown.includes(row)) {
    Object.assign(state, { query: "", filter: "all", sort: null });
    document.getElementById("search").value = "";
    renderFilters();
  }
  openAround(row);
  update(row);
  tree.scrollTop = (state.active - 0.5) * ROW_HEIGHT + head.offsetHeight - tree.clientHeight / 2;
  activate(state.active, false);
}
