// The data of the page, with names for its fields, and how numbers are written.

const data = JSON.parse(document.getElementById("data").textContent);
const text = (number) => data.texts[number];
const columns = data.columns.map(([side, name]) => ({ side, name }));

const PASS = "pass";
const AFFECTED = "affected";
const REFERENCE_WRONG = "reference wrong";
const FAILING = new Set(["fail", "not compared", "not known", REFERENCE_WRONG]);
const VERDICTS = {
  pass: ["✓", "pass"],
  fail: ["✗", "fails"],
  "not compared": ["?", "not compared"],
  "not known": ["?", "not known"],
  [REFERENCE_WRONG]: ["!", "reference wrong"],
  affected: ["~", "affected"],
  "not reached": ["–", "not reached"],
  "passed on": ["✓", "passed on"],
  unpaired: ["–", "unpaired"],
  inlined: ["–", "inlined"],
  skipped: ["–", "skipped"],
};

/** A number that JSON can't hold comes as "inf", "-inf" or "nan"; the value "?" stays. */
function numberOf(value) {
  return { inf: Infinity, "-inf": -Infinity, nan: NaN }[value] ?? value;
}

const rows = data.rows.map((fields, index) => ({
  index,
  path: text(fields[0]),
  label: text(fields[1]),
  parent: fields[2],
  verdict: text(fields[3]),
  className: text(fields[4]),
  port: text(fields[5]),
  calls: fields[6],
  values: fields[7].map((bars, i) => ({ bars: numberOf(bars), words: text(fields[15][i]) })),
  causes: fields[8],
  explanations: fields[9],
  comparisons: fields[10],
  leftOut: fields[11],
  wrongSide: text(fields[12]),
  graph: fields[13],
  lines: fields[14],
  level: fields[2] < 0 ? 1 : 0,
  end: index + 1, // one past the last row inside
  failing: 0, // number of rows inside that fail
  affected: 0, // number of rows inside that are affected
}));
for (const row of rows) {
  if (row.parent >= 0) row.level = rows[row.parent].level + 1;
  row.worstInside = [...row.values];
}
for (const row of [...rows].reverse()) {
  const parent = rows[row.parent];
  if (!parent) continue;
  parent.end = Math.max(parent.end, row.end);
  parent.failing += row.failing + (FAILING.has(row.verdict) ? 1 : 0);
  parent.affected += row.affected + (row.verdict === AFFECTED ? 1 : 0);
  row.worstInside.forEach((value, i) => {
    parent.worstInside[i] = worse(parent.worstInside[i], value);
  });
}
/** The rows that are counted: for training the tensors, without the kinds that they are grouped by. */
const counted = data.charts.length ? rows.filter((row) => row.comparisons.length) : rows;
const rowOfPath = new Map([...rows].reverse().map((row) => [row.path, row]));

const NOTHING = { bars: null, words: "" };

/** A sort key of a value of the heat map: nothing at all is the least, what couldn't be compared the most. */
function rank({ bars }) {
  return bars === null ? -1 : bars === "?" ? Infinity : bars;
}

function worse(one, other) {
  return rank(other) > rank(one) ? other : one;
}

function worstOf(values) {
  return values.reduce(worse, NOTHING);
}

function comparisonOf(fields) {
  return {
    side: text(fields[0]),
    check: text(fields[1]),
    feeding: text(fields[2]),
    kind: text(fields[3]),
    tensor: text(fields[4]),
    call: fields[5],
    status: text(fields[6]),
    reason: text(fields[7]),
    dtype: text(fields[8]),
    shape: text(fields[9]),
    error: numberOf(fields[10]),
    bar: numberOf(fields[11]),
    ratio: numberOf(fields[12]),
    fraction: numberOf(fields[13]),
    index: text(fields[14]),
    referenceValue: numberOf(fields[15]),
    candidateValue: numberOf(fields[16]),
    truth: numberOf(fields[17]),
    source: text(fields[18]),
    sizes: text(fields[19]),
    input: fields[20],
    probe: text(fields[21]),
    errorMap: fields[22],
  };
}

/** Write an error in units of the bar in at most five characters. */
function inBars(value) {
  if (value === null) return "";
  if (value === "?") return "?";
  if (!Number.isFinite(value)) return "∞";
  if (value === 0) return "0";
  if (value < 0.01) return "<0.01";
  if (value < 0.995) return value.toFixed(2);
  if (value < 9.95) return value.toFixed(1);
  if (value < 999.5) return value.toFixed(0);
  return value.toExponential(0).replace("e+", "e");
}

function numeral(value) {
  if (value === null) return "none";
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const exponent = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  return exponent < -4 || exponent > 8 ? value.toExponential().replace("e+", "e") : String(value);
}

/** The colour of an error, from 0 (far below the bar) to 7 (beyond a million bars). */
const LIMITS = [0.01, 0.1, 0.5, 1, 10, 1e3, 1e6];
function heat(value) {
  if (value === null) return "none";
  if (value === "?") return "unknown";
  const found = LIMITS.findIndex((limit) => value <= limit);
  return String(found < 0 ? LIMITS.length : found);
}

function plural(count, [singular, several]) {
  return `${count} ${count === 1 ? singular : several}`;
}
