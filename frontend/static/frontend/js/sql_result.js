// The result of a statement: pick, expand and copy cells; sort, filter and draw its rows.
// What it shows is one page of the result; the server has the rest.
import { announce, say } from "./words.js";
import { KINDS, chartIn, chartOf, proposed } from "./sql_chart.js";

let picked = null;
let choice = null; // what is drawn; null = the table is shown

const table = () => document.querySelector("#statement .result table");
const tool = (name) => document.querySelector(`#statement [data-tool=${name}]`);

// ---------------------------------------------------------------- cells
function pick(cell) {
  picked?.classList.remove("is-picked");
  picked?.removeAttribute("tabindex");
  picked = cell;
  for (const name of ["copy-cell", "expand"]) if (tool(name)) tool(name).disabled = !cell;
  if (!cell) return;
  cell.classList.add("is-picked");
  cell.tabIndex = -1;
  cell.focus();
}

// The text of a cell; null = NULL.
function textOf(cell) {
  return cell.querySelector(".is-null") ? null : cell.textContent;
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    announce(say(said));
  } catch {
    if (picked) getSelection().selectAllChildren(picked);
    announce(say("cell_selected"));
  }
}

function copyCell() {
  if (picked) copy(textOf(picked) ?? "", "cell_copied");
}

// Tabs and line ends within a value would part it.
export function asTsv(rows) {
  const clean = (value) => (value ?? "").replace(/[\t\r\n]+/g, " ");
  return rows.map((row) => row.map(clean).join("\t")).join("\n");
}

function copyAll() {
  const { columns, rows } = shown();
  copy(asTsv([columns.map((one) => one.name), ...rows]), "rows_copied");
}

function expand() {
  const dialog = document.getElementById("cell-dialog");
  if (!picked || !dialog) return;
  const text = textOf(picked) ?? "NULL";
  const [head] = [table().tHead.rows[0].cells[picked.cellIndex]];
  dialog.querySelector("h2").textContent = nameOf(head);
  dialog.querySelector("pre").textContent = pretty(text);
  dialog.showModal();
}

function pretty(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function next(key, result) {
  if (!picked?.isConnected) {
    return key.startsWith("Arrow") ? result.querySelector("td") : null;
  }
  const row = picked.parentElement;
  const rows = { ArrowUp: row.previousElementSibling, ArrowDown: row.nextElementSibling };
  if (key in rows) return rows[key]?.cells[picked.cellIndex];
  if (key === "ArrowLeft") return picked.previousElementSibling;
  return key === "ArrowRight" ? picked.nextElementSibling : null;
}

// ---------------------------------------------------------------- rows
const nameOf = (head) => head.querySelector(".column").textContent.trim();

function shown() {
  const { tHead, tBodies } = table();
  const columns = [...tHead.rows[0].cells].map((head) => ({
    name: nameOf(head),
    isNumber: head.classList.contains("is-number"),
  }));
  const rows = [...tBodies[0].rows]
    .filter((row) => !row.hidden && !row.querySelector("td[colspan]"))
    .map((row) => [...row.cells].map(textOf));
  return { columns, rows };
}

function sortBy(head) {
  const before = head.getAttribute("aria-sort");
  const order = before === "ascending" ? "descending" : "ascending";
  for (const one of head.parentElement.cells) one.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  const [body] = table().tBodies;
  const at = head.cellIndex;
  const isNumber = head.classList.contains("is-number");
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => ({ row, value: textOf(row.cells[at]) }));
  rows.sort((one, other) => {
    // NULL is last, whatever the order
    if (one.value === null || other.value === null) {
      return (one.value === null) - (other.value === null);
    }
    return sign * compared(one.value, other.value, isNumber);
  });
  body.append(...rows.map(({ row }) => row));
}

function compared(one, other, isNumber) {
  return isNumber ? Number(one) - Number(other) : one.localeCompare(other);
}

function filter(text) {
  const wanted = text.trim().toLowerCase();
  for (const row of table().tBodies[0].rows) {
    row.hidden = Boolean(wanted) && !row.textContent.toLowerCase().includes(wanted);
  }
  if (choice) draw();
}

// ---------------------------------------------------------------- the picture
function draw() {
  const { columns, rows } = shown();
  const chart = choice && chartOf(columns, rows, choice);
  const box = tool("chart");
  box.replaceChildren(chart || say("chart_none"));
  fill(columns);
}

function fill(columns) {
  const names = columns.map((one) => one.name);
  const numbers = columns.filter((one) => one.isNumber).map((one) => one.name);
  options(tool("kind"), KINDS, [choice.kind], (kind) => say(`chart_${kind}`));
  options(tool("x"), names, [choice.x]);
  options(tool("y"), numbers, choice.y);
}

function options(select, values, chosen, word = (value) => value) {
  select.replaceChildren(
    ...values.map((value) => {
      const isChosen = chosen.includes(value);
      return new Option(word(value), value, isChosen, isChosen);
    }),
  );
}

function show(isChart) {
  const { columns, rows } = shown();
  choice = isChart ? choice || proposed(columns, rows) : null;
  const isDrawn = Boolean(choice);
  if (isChart && !isDrawn) announce(say("chart_none"));
  document.querySelector("#statement .result").hidden = isDrawn;
  tool("picture").hidden = !isDrawn;
  tool("as-chart").setAttribute("aria-pressed", String(isDrawn));
  tool("as-table").setAttribute("aria-pressed", String(!isDrawn));
  if (isDrawn) draw();
}

export function currentChart() {
  return choice;
}

// A new result came, of this statement.
export function resultCame(sql) {
  choice = null;
  if (!table()) return;
  const tools = tool("all");
  tools.hidden = false;
  for (const head of table().tHead.rows[0].cells) {
    const name = head.querySelector(".column");
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: name.textContent.trim() });
    name.replaceChildren(button);
  }
  const { columns } = shown();
  const numbers = columns.filter((one) => one.isNumber);
  tool("as-chart").disabled = !numbers.length;
  const wanted = chartIn(sql);
  const isKnown = wanted && columns.some((one) => one.name === wanted.x);
  if (isKnown && KINDS.includes(wanted.kind) && Array.isArray(wanted.y)) {
    choice = wanted;
    show(true);
  }
}

// ---------------------------------------------------------------- what a person does
const ACTIONS = {
  "copy-cell": copyCell,
  "copy-all": copyAll,
  expand,
  "as-table": () => show(false),
  "as-chart": () => show(true),
};

document.addEventListener("click", ({ target }) => {
  const cell = target.closest("#statement .result td");
  if (cell) pick(cell);
  const head = target.closest("#statement .result th .column button");
  if (head) sortBy(head.closest("th"));
  ACTIONS[target.closest("#statement [data-tool]")?.dataset.tool]?.();
});

document.addEventListener("dblclick", ({ target }) => {
  if (target.closest("#statement .result td")) expand();
});

document.addEventListener("input", ({ target }) => {
  const name = target.closest("#statement [data-tool]")?.dataset.tool;
  if (name === "filter") filter(target.value);
  if (!choice || !["kind", "x", "y"].includes(name)) return;
  const chosen = [...target.selectedOptions].map((one) => one.value);
  choice = { ...choice, [name]: name === "y" ? chosen : chosen[0] };
  draw();
});

document.addEventListener("keydown", (event) => {
  const result = event.target.closest?.("#statement .result");
  if (!result || event.target.closest("th")) return;
  const isCopy = event.key === "c" && (event.ctrlKey || event.metaKey);
  if (isCopy && picked && !String(getSelection())) {
    event.preventDefault();
    copyCell();
  } else if (event.key === "Enter" && picked) {
    event.preventDefault();
    expand();
  } else {
    const to = next(event.key, result);
    if (!to) return;
    event.preventDefault();
    pick(to);
  }
});
