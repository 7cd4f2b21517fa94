// What is shown of one row: verdict, causes, and each comparison.

const AT_ONCE = 60; // comparisons that are shown before "show all"

function detailOf(row) {
  const [mark, words] = VERDICTS[row.verdict];
  const facts = [row.className, row.port, row.calls > 1 && `called ${row.calls} times`];
  return [
    make("h3", { class: "path" }, name(row.path)),
    make(
      "p",
      { class: "verdict-line" },
      make("span", { class: `verdict ${verdictClass(row.verdict)}` }, `${mark} ${words}`),
      name(facts.filter(Boolean).join(", "), { class: "class" }),
    ),
    row.verdict === AFFECTED
      ? make("p", { class: "hint" }, "It differs end to end only, because of other Cells.")
      : null,
    row.wrongSide ? make("div", { class: "cause" }, make("p", {}, label("Wrong side"), name(row.wrongSide))) : null,
    ...row.causes.map(causeOf),
    ...row.explanations.map((number) =>
      make(
        "div",
        { class: "cause" },
        make("p", {}, label(row.causes.length ? "In the APIs" : "Possible cause"), name(text(number))),
      ),
    ),
    ...(row.causes.length ? [] : linesOf(row.lines)),
    row.graph ? graphOf(row) : null,
    ...comparisonLists(row),
  ].filter(Boolean);
}

function verdictClass(verdict) {
  if (verdict === REFERENCE_WRONG) return "is-affected";
  if (FAILING.has(verdict)) return "is-failing";
  return verdict === PASS ? "is-passing" : verdict === AFFECTED ? "is-affected" : "is-quiet";
}

function label(words) {
  return make("strong", { class: "label" }, words);
}

function causeOf(numbers) {
  const [summary, proof, fix, source] = numbers.slice(0, 4).map(text);
  const lines = numbers[4];
  return make(
    "div",
    { class: "cause" },
    make("p", {}, label("Cause, proved"), name(summary)),
    fix ? make("p", {}, label("To fix"), name(fix)) : null,
    make("p", { class: "proof" }, label("Proof"), proof),
    ...(lines.length ? linesOf(lines) : source ? [sourceOf(source)] : []),
  );
}

/** The lines of both sides in two columns, as the findings at the top have them; nothing if none is known. */
function linesOf(columns) {
  if (!columns.length) return [];
  const kinds = columns.length > 1 ? ["side minus", "side plus"] : ["side"];
  const sides = columns.map(([side, blocks], i) =>
    make(
      "div",
      { class: kinds[i] },
      make("p", { class: "label" }, name(text(side))),
      ...(blocks.length ? blocks.flatMap(blockOf) : [make("p", { class: "file" }, "no line is known")]),
    ),
  );
  return [make("div", { class: "hunk" }, ...sides)];
}

function blockOf([file, lines]) {
  const cells = lines.map(([number, pieces]) =>
    make(
      "tr",
      {},
      make("td", { class: "line-number" }, number ? String(number) : ""),
      make("td", {}, make("code", {}, ...pieces.map(([piece, isMarked]) => (isMarked ? make("mark", {}, text(piece)) : text(piece))))),
    ),
  );
  return [text(file) ? make("p", { class: "file" }, name(text(file))) : null, make("table", {}, ...cells)].filter(Boolean);
}

function sourceOf(source, side) {
  return make("p", { class: "source" }, side ? label(side) : null, make("code", {}, name(source)));
}

function comparisonLists(row) {
  const comparisons = row.comparisons.map(comparisonOf);
  if (!comparisons.length) {
    return [
      make(
        "p",
        { class: "hint" },
        row.end > row.index + 1 ? "Only what is inside was compared." : "Nothing of it was compared.",
      ),
    ];
  }
  const axis = axisOf(comparisons.map((c) => c.fraction));
  const failed = comparisons.filter((c) => c.status !== PASS);
  const passed = comparisons.filter((c) => c.status === PASS);
  return [
    ...(failed.length
      ? listOf(failed, axis, row, `${plural(failed.length, ["comparison differs", "comparisons differ"])}`)
      : []),
    ...(passed.length
      ? listOf(passed, axis, row, `${plural(passed.length, ["comparison passes", "comparisons pass"])}`)
      : []),
    row.leftOut
      ? make("p", { class: "hint" }, `${row.leftOut} less severe ones are left out; the JSON report has them.`)
      : null,
  ];
}

function listOf(comparisons, axis, row, title) {
  const list = make("div", { class: "comparisons" });
  const add = (some) => list.append(...some.map((c) => comparisonElement(c, axis, row)));
  add(comparisons.slice(0, AT_ONCE));
  const rest = comparisons.length - AT_ONCE;
  if (rest > 0) {
    const button = make(
      "button",
      {
        type: "button",
        onclick: () => {
          button.remove();
          add(comparisons.slice(AT_ONCE));
        },
      },
      `Show ${rest} more`,
    );
    list.append(button);
  }
  return [make("h4", {}, make("span", {}, title), axisLabels(axis)), list];
}

const EXPLAINED = "quantization error"; // the kind of an error that steps explain

function barOf(c) {
  if (c.check !== "quantization" || c.kind === EXPLAINED) return c.bar ? `up to ${numeral(c.bar)} passes` : "exact";
  const steps = c.ratio / c.fraction; // its `bar` is the length of a step
  return Number.isFinite(steps) ? `up to ${inBars(steps)} steps pass` : "none";
}

function ofBar(c) {
  if (c.fraction !== null) return inBars(c.fraction);
  return c.kind === "quantizer" ? `${inBars(c.ratio)} steps` : "?";
}

function comparisonElement(c, axis, row) {
  const failed = c.status !== PASS;
  const kind = data.charts.length ? `step ${c.call}` : c.kind;
  const tensor =
    [kind, !data.charts.length && c.tensor !== c.kind && c.tensor].filter(Boolean).join(" ") +
    (row.calls > 1 ? `, call ${c.call}` : "");
  const check = [
    c.side,
    c.check + (c.check === "meaning" ? " in float64" : ""),
    c.feeding,
    c.sizes && `at ${c.sizes}`,
    c.probe && `with ${c.probe}`,
    c.input > 1 && `input ${c.input}`,
  ]
    .filter(Boolean)
    .join(", ");
  const summary = make(
    "summary",
    {},
    make("span", { class: "what" }, name(tensor, { class: "tensor" }), name(check, { class: "check" })),
    errorBar(c.fraction, axis),
    make("span", { class: `number ${failed ? "beyond" : ""}` }, ofBar(c)),
  );
  const unit =
    c.kind === EXPLAINED
      ? "× what rounding to the steps of its quantizers makes"
      : c.check === "quantization"
        ? " steps of its quantizer"
        : `× ${data.unit}`;
  const isInDouble = c.check === "meaning" && !data.hasTolerance; // its ratio has another unit than the heat map
  const facts = [
    ["Tensor", [c.dtype, c.shape].join("")],
    ["Error", numeral(c.error)],
    ["Bar", barOf(c)],
    ...(isInDouble ? [] : [["Ratio", `${inBars(c.ratio)}${unit}`]]),
  ];
  const values = [
    [data.reference, c.referenceValue],
    [c.side, c.candidateValue],
    ["float64 truth", c.truth],
  ].filter(([, value]) => value !== null);
  return make(
    "details",
    { class: failed ? "comparison failed" : "comparison", open: failed },
    summary,
    failed && c.reason ? make("p", { class: "reason" }, name(c.reason)) : null,
    make("dl", {}, ...facts.map(([key, value]) => make("div", {}, make("dt", {}, key), make("dd", {}, name(value))))),
    values.length
      ? make(
          "table",
          { class: "values" },
          make("caption", {}, `Values at the worst element, ${c.index}`),
          ...values.map(([side, value]) =>
            make("tr", {}, make("th", { scope: "row" }, name(side)), make("td", {}, numeral(value))),
          ),
        )
      : null,
    c.errorMap ? placesOf(c.errorMap, c) : null,
    c.source ? sourceOf(c.source, c.side) : null,
  );
}

/** Everything that fails, for print. */
function printed() {
  const failing = rows.filter((row) => FAILING.has(row.verdict) && row.comparisons.length);
  const affected = rows.filter((row) => row.verdict === AFFECTED);
  return [
    ...failing.map((row) =>
      make(
        "article",
        {},
        ...detailOf({ ...row, comparisons: row.comparisons.filter((fields) => text(fields[6]) !== PASS) }),
      ),
    ),
    affected.length
      ? make("h3", {}, `Affected: they differ end to end only, because of other ${data.noun[1]}`)
      : null,
    make(
      "p",
      {},
      ...affected.flatMap((row, i) => [i ? ", " : "", name(`${row.path} (${worstOf(row.values).words})`)]),
    ),
  ].filter(Boolean);
}
