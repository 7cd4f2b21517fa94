// Puts the parts together: filters, keys, the address of a row, and print.

const detail = document.getElementById("detail");
const search = document.getElementById("search");
const about = document.getElementById("about");
const phone = matchMedia("(max-width: 700px)"); // as in the style
const isFramed = location.protocol === "about:"; // in the frame of a notebook, which gives the page no address
const FILTERS = [
  ["failing", (row) => FAILING.has(row.verdict)],
  ["affected", (row) => FAILING.has(row.verdict) || row.verdict === AFFECTED],
  ["all", () => true],
];

function foldFacts() {
  about.open = !phone.matches;
}

function renderFilters() {
  const some = rows.some((row) => row.verdict === AFFECTED);
  const buttons = FILTERS.filter(([filter]) => some || filter !== "affected").map(([filter, fits]) => {
    const count = counted.filter(fits).length;
    const pressed = state.filter === filter;
    const choose = () => {
      state.filter = filter;
      tree.scrollTop = 0;
      renderFilters();
      update();
    };
    return make(
      "button",
      { type: "button", "aria-pressed": String(pressed), "data-filter": filter, onclick: choose },
      `${filter} `,
      make("span", { class: "tally" }, String(count)),
    );
  });
  const group = document.getElementById("filters");
  const focused = group.contains(document.activeElement) ? document.activeElement.dataset.filter : null;
  group.replaceChildren(...buttons);
  if (focused) group.querySelector(`[data-filter="${focused}"]`).focus();
}

function renderLegend() {
  const names = ["", "", "", "passes", "fails", "", "", "a million times what passes"];
  document
    .getElementById("legend")
    .replaceChildren(
      make("span", {}, `The largest error of each. ${data.legend}`),
      make("span", { class: "scale" }, ...names.map((words, i) => make("span", { class: `heat-${i}` }, words))),
    );
}

/** Show the details of a row beside the tree or, opened from elsewhere, over the page. */
function show(row, from = tree) {
  state.selected = row;
  state.openedFrom = from;
  const close = make("button", { type: "button", class: "close", "aria-label": "Close", onclick: hide }, "✕");
  detail.replaceChildren(close, ...detailOf(row));
  detail.hidden = false;
  detail.scrollTop = 0;
  detail.setAttribute("aria-label", `Details of ${row.path}`);
  document.getElementById("split").classList.toggle("with-detail", from === tree);
  for (const [place, element] of elements) element.setAttribute("aria-selected", String(state.shown[place] === row));
  activateInNetwork(row);
  detail.querySelectorAll(".canvas").forEach(scrollToMark);
  const address = `#cell=${encodeURIComponent(row.path)}`;
  if (location.hash !== address) setAddress(address);
}

function hide() {
  state.selected = null;
  detail.hidden = true;
  document.getElementById("split").classList.remove("with-detail");
  setAddress(location.pathname + location.search);
  update();
  activate(state.active, state.openedFrom === tree);
  if (state.openedFrom !== tree) state.openedFrom.focus({ preventScroll: true });
}

/** Change the address to one that opens the page as it is. */
function setAddress(address) {
  if (!isFramed) history.replaceState(null, "", address);
}

/** Follow a link to a Cell where the page has no address of its own. */
function followInFrame(event) {
  const link = event.target.closest('a[href^="#cell="]');
  if (!link) return;
  event.preventDefault();
  follow(link.getAttribute("href"));
}

/** Show the row that the address or a link names, such as `#cell=layers.0.norm`. */
function follow(fragment = location.hash) {
  if (!fragment.startsWith("#cell=")) return;
  let path = fragment.slice("#cell=".length);
  try {
    path = decodeURIComponent(path);
  } catch (error) {
    if (!(error instanceof URIError)) throw error; // a path with a bare % is taken as it is
  }
  const row = rowOfPath.get(path) ?? (path ? undefined : rows[0]);
  if (!row) return;
  reveal(row);
  show(row);
  document.getElementById("split").scrollIntoView({ block: "start" });
}

function onKey(event) {
  const row = state.shown[state.active];
  if (!row || !event.target.closest?.(".rows")) return;
  const page = Math.max(1, Math.floor(tree.clientHeight / ROW_HEIGHT) - 2);
  const move = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
  if (move !== undefined) activate(state.active + move);
  else if (event.key === "ArrowRight") {
    if (state.open.has(row.index) && !isFlat()) activate(state.active + 1);
    else toggle(row, true);
  } else if (event.key === "ArrowLeft") {
    if (state.open.has(row.index) && !isFlat()) toggle(row, false);
    else if (row.parent >= 0 && !isFlat()) activate(state.shown.indexOf(rows[row.parent]));
  } else if (event.key === "Enter" || event.key === " ") {
    show(row);
    detail.focus();
  } else return;
  event.preventDefault();
}

function onClick(event) {
  const element = event.target.closest(".row[data-place]");
  if (!element) return;
  const place = Number(element.dataset.place);
  const row = state.shown[place];
  activate(place);
  if (event.target.closest(".twist") && row.end > row.index + 1) toggle(row);
  else show(row);
}

function onPageKey(event) {
  const typing = event.target.matches?.("input, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    const nearest = document.activeElement === network ? networkSearch : search;
    nearest.focus();
    nearest.select();
  } else if (event.key === "Escape" && event.target === search) {
    search.value = state.query = "";
    update();
    activate(state.active);
  } else if (event.key === "Escape" && !detail.hidden) hide();
}

tree.setAttribute("role", "treegrid");
tree.setAttribute("aria-label", data.noun[1]);
tree.setAttribute("aria-colcount", String(columns.length + 3));
tree.style.setProperty("--columns", String(columns.length));
tree.append(make("div", { role: "rowgroup", class: "heads" }, head), body);
tree.addEventListener("scroll", renderRows);
tree.addEventListener("keydown", onKey);
body.addEventListener("click", onClick);
search.addEventListener("input", () => {
  state.query = search.value.trim();
  tree.scrollTop = 0;
  update();
});
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" && state.shown.length) {
    event.preventDefault();
    activate(0);
  }
});
document.addEventListener("keydown", onPageKey);
window.addEventListener("hashchange", () => follow());
if (isFramed) document.addEventListener("click", followInFrame);
window.addEventListener("resize", renderRows);
const print = document.getElementById("print");
window.addEventListener("beforeprint", () => {
  about.open = true;
  print.replaceChildren(...printed());
});
window.addEventListener("afterprint", () => {
  foldFacts();
  print.replaceChildren();
});
phone.addEventListener("change", foldFacts);

document.getElementById("charts")?.replaceChildren(...data.charts.map(chart));
foldFacts();
renderFilters();
renderLegend();
openAtFirst();
openNetwork();
update();
follow();
