// The rows of a result as a picture: bars, lines, areas, points or shares. Pure SVG.
import { say } from "./words.js";

const WIDE = 720;
const HIGH = 300;
const LEFT = 64;
const BOTTOM = 36;
const MOST = 500; // rows that are drawn
const MOST_SLICES = 12;
const LEGEND = 22; // the height of a line of names above the axes
const LANGUAGE = document.documentElement.lang || undefined;
const DIRECTIVE = /^\s*--\s*chart:\s*(\{.*\})\s*$/m;
export const KINDS = ["bar", "line", "area", "scatter", "pie"];

// What a saved query says of its chart, in a comment of its own; null = nothing.
export function chartIn(sql) {
  try {
    return JSON.parse(DIRECTIVE.exec(sql)?.[1] || "null");
  } catch {
    return null;
  }
}

export function withChart(sql, choice) {
  const rest = sql.replace(DIRECTIVE, "").replace(/^\n+/, "");
  return choice ? `-- chart: ${JSON.stringify(choice)}\n${rest}` : rest;
}

// columns: [{ name, isNumber }]. The first that is no number is x, numbers are y.
export function proposed(columns, rows) {
  const numbers = columns.filter((one) => one.isNumber);
  const x = columns.find((one) => !one.isNumber) || columns[0];
  const y = numbers.find((one) => one !== x) || numbers[0];
  if (!x || !y) return null;
  const at = columns.indexOf(x);
  const isTime = rows.length > 1 && rows.every((row) => /^\d{4}-\d\d/.test(row[at] || ""));
  const kind = x.isNumber ? "scatter" : isTime ? "line" : "bar";
  return { kind, x: x.name, y: [y.name] };
}

// rows: texts, null = NULL. Null where there is nothing to draw.
export function chartOf(columns, rows, { kind, x, y }) {
  const at = columns.findIndex((one) => one.name === x);
  const lines = y
    .map((name) => ({ name, at: columns.findIndex((one) => one.name === name) }))
    .filter((one) => one.at >= 0)
    .map(({ name, at: place }) => ({
      name,
      values: rows.slice(0, MOST).map((row) => number(row[place])),
    }));
  const names = rows.slice(0, MOST).map((row) => row[at] ?? "NULL");
  if (at < 0 || !lines.some(({ values }) => values.some((one) => one !== null))) return null;
  const title = say("chart_of", { kind: say(`chart_${kind}`), x, y: y.join(", ") });
  const svg = element("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": title });
  if (kind === "pie") pie(svg, names, lines[0].values);
  else axes(svg, kind, names, lines);
  return svg;
}

function number(text) {
  const value = text === null || text === "" ? NaN : Number(text);
  return Number.isFinite(value) ? value : null;
}

function element(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function tipped(shape, text) {
  shape.append(element("title", {}, text));
  return shape;
}

function axes(svg, kind, names, lines) {
  const all = lines.flatMap(({ values }) => values.filter((one) => one !== null));
  const low = kind === "scatter" ? Math.min(...all) : Math.min(0, ...all);
  const high = Math.max(...all, low + (low === Math.max(...all) ? 1 : 0));
  const top = 10 + (lines.length > 1 ? legend(svg, lines) : 0);
  const y = (value) => top + ((HIGH - BOTTOM - 10 - top) * (high - value)) / (high - low || 1);
  const numbers = kind === "scatter" ? names.map(number) : [];
  const isScale = numbers.length && numbers.every((one) => one !== null);
  const [first, last] = isScale ? [Math.min(...numbers), Math.max(...numbers)] : [0, 1];
  const step = (WIDE - LEFT - 10) / names.length;
  const x = (place) =>
    isScale
      ? LEFT + 6 + ((WIDE - LEFT - 22) * (numbers[place] - first)) / (last - first || 1)
      : LEFT + step * (place + 0.5);
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const value = low + part * (high - low);
    svg.append(
      element("line", { x1: LEFT, x2: WIDE, y1: y(value), y2: y(value), class: "rule" }),
      element("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)),
    );
  }
  labels(svg, isScale ? [first, last].map(short) : names, isScale ? 2 : names.length);
  lines.forEach(({ name, values }, series) => {
    const points = values.flatMap((value, place) => (value === null ? [] : [{ value, place }]));
    const tip = ({ value, place }) => `${names[place]}: ${name} ${value.toLocaleString(LANGUAGE)}`;
    const style = `series-${series % 6}`;
    const path = points.map((one) => `${x(one.place).toFixed(1)},${y(one.value).toFixed(1)}`);
    if (kind === "area") {
      const [begin, end] = [x(points[0].place), x(points.at(-1).place)];
      const ground = y(Math.max(low, 0));
      const outline = `${begin},${ground} ${path.join(" ")} ${end},${ground}`;
      svg.append(element("polygon", { points: outline, class: `${style} is-area` }));
    }
    if (kind === "line" || kind === "area") {
      svg.append(element("polyline", { points: path.join(" "), class: `${style} is-line` }));
    }
    for (const one of points) {
      const width = Math.max(1, (step * 0.8) / lines.length);
      const ground = y(Math.max(low, Math.min(high, 0)));
      const shape =
        kind === "bar"
          ? element("rect", {
              x: x(one.place) - (step * 0.8) / 2 + series * width,
              y: Math.min(y(one.value), ground),
              width,
              height: Math.max(1, Math.abs(ground - y(one.value))),
              class: style,
            })
          : element("circle", { cx: x(one.place), cy: y(one.value), r: 3, class: style });
      svg.append(tipped(shape, tip(one)));
    }
  });
}

// What each colour stands for, in lines above the axes; how high they are together.
function legend(svg, lines) {
  let [left, line] = [LEFT, 0];
  lines.forEach(({ name }, series) => {
    const text = cut(name, 28);
    const wide = 32 + 7.5 * text.length;
    if (left > LEFT && left + wide > WIDE) [left, line] = [LEFT, line + 1];
    const y = 4 + line * LEGEND;
    const style = `series-${series % 6}`;
    svg.append(
      element("rect", { x: left, y, width: 12, height: 12, class: style }),
      tipped(element("text", { x: left + 18, y: y + 11 }, text), name),
    );
    left += wide;
  });
  return (line + 1) * LEGEND;
}

function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// As many names below as find room.
function labels(svg, names, count) {
  const every = Math.ceil(count / 8);
  const step = (WIDE - LEFT - 10) / count;
  names.forEach((name, place) => {
    if (place % every) return;
    const text = cut(name, 12);
    const at = { x: LEFT + step * (place + 0.5), y: HIGH - 12, "text-anchor": "middle" };
    svg.append(tipped(element("text", at, text), name));
  });
}

function pie(svg, names, values) {
  const parts = names
    .map((name, place) => ({ name, value: Math.max(0, values[place] || 0) }))
    .sort((one, other) => other.value - one.value);
  const rest = parts.splice(MOST_SLICES - 1).reduce((sum, one) => sum + one.value, 0);
  if (rest) parts.push({ name: say("chart_rest"), value: rest });
  const total = parts.reduce((sum, one) => sum + one.value, 0) || 1;
  let turn = -Math.PI / 2;
  parts.forEach(({ name, value }, place) => {
    const share = value / total;
    const text = `${name}: ${value.toLocaleString(LANGUAGE)} (${(100 * share).toFixed(1)} %)`;
    const style = `series-${place % 6}`;
    const [cx, cy, r] = [150, 150, 130];
    const at = (angle) => `${cx + r * Math.cos(angle)} ${cy + r * Math.sin(angle)}`;
    const end = turn + 2 * Math.PI * Math.min(share, 0.9999);
    const d = `M ${cx} ${cy} L ${at(turn)} A ${r} ${r} 0 ${share > 0.5 ? 1 : 0} 1 ${at(end)} Z`;
    turn = end;
    svg.append(tipped(element("path", { d, class: `${style} is-slice` }), text));
    const y = 22 + place * 23;
    svg.append(
      element("rect", { x: 320, y: y - 11, width: 14, height: 14, class: style }),
      element("text", { x: 342, y }, text),
    );
  });
}

function short(value) {
  const size = Math.abs(value);
  const form = size >= 10000 ? { notation: "compact" } : {};
  return value.toLocaleString(LANGUAGE, { maximumSignificantDigits: 3, ...form });
}
