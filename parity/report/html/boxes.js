// Places the expanded rows of the tree as boxes within boxes, one below the other, in the order of their calls.

const BOX = { height: 26, gap: 12, inset: 9, deepest: 12 };
const BOX_TEXT = 8; // from the edge of a box

/** Return the boxes of rows in a column of this width, those around others first, and the height of them all. */
function boxesOf(shown, width) {
  const boxes = [];
  const around = []; // the boxes that the next row may be inside
  const top = { last: null };
  let y = BOX.gap / 2;
  const close = () => {
    const box = around.pop();
    box.bottom = y - BOX.gap + BOX.inset;
    y = box.bottom + BOX.gap;
  };
  for (const row of shown) {
    while (around.length && row.index >= around[around.length - 1].row.end) close();
    const outer = around[around.length - 1] ?? top;
    const x = BOX.inset * (1 + Math.min(around.length, BOX.deepest));
    const box = {
      row,
      x,
      y,
      width: Math.max(3 * BOX.height, width - 2 * x),
      bottom: y + BOX.height,
      place: boxes.length,
      level: around.length + 1,
      before: outer.last,
      isParent: row.end > row.index + 1,
      isOpen: row.end > row.index + 1 && state.open.has(row.index),
      last: null,
    };
    outer.last = box;
    boxes.push(box);
    y = box.bottom + BOX.gap;
    if (box.isOpen) around.push(box);
  }
  while (around.length) close();
  return { boxes, height: y - BOX.gap / 2 };
}

/** An arrow from the box that is called before this one; nothing if the order isn't known. */
function arrowBefore({ before, row, x, y, width }) {
  if (!data.inOrder || !before || !before.row.calls || !row.calls) return [];
  const middle = x + width / 2;
  return [
    draw("path", { class: "edge", d: `M${middle},${before.bottom}V${y - 5}` }),
    draw("path", { class: "arrow", d: `M${middle},${y}l-4,-6h8z` }),
  ];
}

/** A box with what is known of its row: of a collapsed one, the worst that is inside. */
function boxElement(box, { isActive, isFaint }) {
  const { row, x, y, width, isParent, isOpen } = box;
  const isCollapsed = isParent && !isOpen;
  const verdict = isCollapsed ? verdictWithInside(row) : row.verdict;
  const [mark, words] = VERDICTS[verdict];
  const worst = worstOf(isCollapsed ? row.worstInside : row.values).words;
  const inside = isCollapsed ? `${row.end - row.index - 1} inside` : "";
  const right = FAILING.has(verdict) ? worst : inside;
  const room = Math.floor((width - 3 * BOX_TEXT) / LETTER) - right.length - (isParent ? 4 : 2);
  const label = shortened(row.label, Math.max(4, room));
  const left = room - [...label].length - 1;
  const name = left > 4 ? shortened(row.className, left) : "";
  const style = ["box", verdictClass(verdict), isOpen && "is-open", isActive && "is-active", isFaint && "is-faint"];
  const middle = y + BOX.height / 2 + 4;
  return draw(
    "g",
    {
      class: style.filter(Boolean).join(" "),
      id: boxName(row),
      role: "treeitem",
      "aria-level": box.level,
      "aria-selected": String(state.selected === row),
      "aria-label": `${label} ${name} ${right}, ${[row.path, row.className, words, worst, inside].filter(Boolean).join(", ")}`,
      ...(isParent ? { "aria-expanded": String(isOpen) } : {}),
      "data-box": box.place,
    },
    draw("title", {}, [row.path, row.className, `${mark} ${words}`, worst].filter(Boolean).join("\n")),
    draw("rect", { x, y, width, height: box.bottom - y, rx: 4 }),
    draw(
      "text",
      { x: x + BOX_TEXT, y: middle },
      ...(isParent ? [draw("tspan", { class: "twist" }, isOpen ? "▾ " : "▸ ")] : []),
      draw("tspan", { class: "box-mark" }, `${mark} `),
      draw("tspan", { class: "box-label" }, label),
      draw("tspan", { class: "box-class" }, ` ${name}`),
    ),
    " ",
    draw("text", { class: "box-right", x: x + width - BOX_TEXT, y: middle, "text-anchor": "end" }, right),
  );
}

function boxName(row) {
  return `box-${row.index}`;
}
