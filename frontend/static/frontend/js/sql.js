// SQL page: editor with completion from the catalogue, tabs, run selection, results.
// Without this file, or without CodeMirror, the plain textarea does the job.
import { say } from "./words.js";
import { statementAt, statementsOf, tablesOf } from "./sql_text.js";

const area = document.getElementById("sql");
const form = document.getElementById("sql-form");
const editor = window.CodeMirror && form ? makeEditor() : null;
const waiting = []; // statements of "Run all" that come after the one at work
let mark = null;

// ---------------------------------------------------------------- the editor
function makeEditor() {
  const made = window.CodeMirror(
    (element) => area.after(element),
    {
      value: area.value,
      mode: "text/x-sparksql",
      lineNumbers: true,
      matchBrackets: true,
      autoCloseBrackets: true,
      indentUnit: 2,
      placeholder: area.placeholder,
      screenReaderLabel: say("editor"),
      viewportMargin: Infinity,
      extraKeys: {
        "Ctrl-Enter": run,
        "Cmd-Enter": run,
        "Shift-Ctrl-Enter": runAll,
        "Shift-Cmd-Enter": runAll,
        "Ctrl-Space": complete,
        "Ctrl-/": "toggleComment",
        "Cmd-/": "toggleComment",
        Esc: leaveWithTab,
        Tab: indent,
        "Shift-Tab": "indentLess",
      },
      hintOptions: { hint: hints, completeSingle: false },
    },
  );
  // The form's own field stays: it is what is sent, and what a script may fill.
  area.classList.add("is-behind");
  area.tabIndex = -1;
  area.setAttribute("aria-hidden", "true");
  document.querySelector("label[for=sql]").removeAttribute("for");
  made.on("changes", () => {
    area.value = made.getValue();
    clearMark();
    keep();
  });
  made.on("inputRead", (_, change) => {
    const typed = change.text[change.text.length - 1];
    if (/[\w.`\u0080-\uffff]$/.test(typed) && !made.state.completionActive) {
      clearTimeout(made.sluiceTimer);
      made.sluiceTimer = setTimeout(complete, 120);
    }
  });
  area.addEventListener("input", () => {
    if (area.value !== made.getValue()) made.setValue(area.value);
  });
  return made;
}

function leaveWithTab() {
  document.getElementById("run").focus();
}

function indent(cm) {
  if (cm.somethingSelected()) cm.execCommand("indentMore");
  else cm.execCommand("insertSoftTab");
}

// ---------------------------------------------------------------- completion
const known = new Map();

async function ask(parameters) {
  const url = `${form.dataset.names}?${new URLSearchParams(parameters)}`;
  if (!known.has(url)) {
    const response = await fetch(url, { headers: { Accept: "application/json" } });
    if (!response.ok) return [];
    known.set(url, (await response.json()).names);
    if (known.size > 200) known.delete(known.keys().next().value);
  }
  return known.get(url);
}

function complete() {
  if (editor.hasFocus()) editor.showHint();
}

async function hints(cm) {
  const cursor = cm.getCursor();
  const before = cm.getLine(cursor.line).slice(0, cursor.ch);
  const typed = /[\w.`\u0080-\uffff]*$/.exec(before)[0];
  if (cm.getTokenTypeAt(cursor) === "string" || /^\d/.test(typed)) return null;
  const [first, ...rest] = typed.split(".");
  const tables = tablesOf(statementAt(cm.getValue(), cm.indexFromPos(cursor)).sql);
  const meant = rest.length === 1 && tables.aliases.get(first.toLowerCase());
  const found = meant
    ? await ask([["table", meant], ["typed", rest[0]]])
    : await ask([["typed", typed], ...tables.names.map((name) => ["in", name])]);
  const from = meant ? typed.length - rest[0].length : 0;
  const list = found.map((one) => ({
    text: one.text,
    render: (element) => show(element, one),
  }));
  if (!rest.length) list.push(...keywords(typed, list.length));
  if (!list.length || (list.length === 1 && list[0].text === typed)) return null;
  return {
    list,
    from: { line: cursor.line, ch: cursor.ch - typed.length + from },
    to: cursor,
  };
}

function keywords(typed, room) {
  if (typed.length < 2) return [];
  const words = Object.keys(window.CodeMirror.resolveMode("text/x-sparksql").keywords);
  return words
    .filter((word) => word.startsWith(typed.toLowerCase()))
    .slice(0, Math.max(4, 12 - room))
    .map((word) => ({ text: word.toUpperCase(), className: "hint-keyword" }));
}

function show(element, one) {
  element.classList.add(`hint-${one.kind}`);
  const name = document.createElement("span");
  name.textContent = one.text;
  const detail = document.createElement("span");
  detail.className = "hint-detail";
  detail.textContent = one.detail || one.kind;
  element.append(name, detail);
}

// ---------------------------------------------------------------- running
let asked = null; // { sql, line }: what the next request carries instead of everything

function chosen() {
  if (!editor) return { sql: area.value, line: 0 };
  if (editor.somethingSelected()) {
    return { sql: editor.getSelection(), line: editor.getCursor("from").line };
  }
  const found = statementAt(editor.getValue(), editor.indexFromPos(editor.getCursor()));
  return { sql: found.sql, line: editor.posFromIndex(found.start).line };
}

function run() {
  waiting.length = 0;
  form.requestSubmit(document.getElementById("run"));
}

function runAll() {
  waiting.length = 0;
  waiting.push(...statementsOf(editor.getValue()));
  runNext();
}

function runNext() {
  const next = waiting.shift();
  if (!next) return;
  asked = { sql: next.sql, line: editor.posFromIndex(next.start).line };
  form.requestSubmit(document.getElementById("run"));
}

let sentFrom = 0;

document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt !== form) return;
  const wanted = asked || chosen();
  asked = null;
  sentFrom = wanted.line;
  clearMark();
  event.detail.parameters.sql = wanted.sql;
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target?.id !== "statement" && !document.getElementById("statement")) {
    return;
  }
  const state = document.querySelector("#statement [data-state]")?.dataset.state;
  if (state === "FINISHED" && waiting.length) setTimeout(runNext, 0);
  if (["ERROR", "CANCELED", "TIMEDOUT"].includes(state)) waiting.length = 0;
  markError();
  refreshHistory(state);
});

let historyState = "";

function refreshHistory(state) {
  const moved = ["INITIALIZED", "PENDING", "RUNNING"].includes(historyState);
  historyState = state || "";
  if (!moved || ["INITIALIZED", "PENDING", "RUNNING"].includes(historyState)) return;
  // the gateway writes its line within moments
  setTimeout(() => {
    const url = document.querySelector("#history form")?.getAttribute("action");
    if (url) window.htmx.ajax("GET", url, { target: "#history", swap: "outerHTML" });
  }, 600);
}

function markError() {
  const place = document.querySelector("#statement [data-line]");
  if (!editor || !place || mark) return;
  const line = sentFrom + Number(place.dataset.line) - 1;
  if (line < editor.lineCount()) {
    mark = editor.addLineClass(line, "wrap", "is-wrong-line");
  }
}

function clearMark() {
  if (mark) editor.removeLineClass(mark, "wrap", "is-wrong-line");
  mark = null;
}

area?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  }
});
document.getElementById("run-all")?.addEventListener("click", runAll);

document.addEventListener("click", (event) => {
  const again = event.target.closest("[data-sql]");
  if (!again || !area) return;
  write(document.getElementById(again.dataset.sql).textContent);
});

document.addEventListener("click", (event) => {
  const text = event.target.closest("[data-insert]")?.dataset.insert;
  if (!text || !area) return;
  if (editor) {
    editor.replaceSelection(text);
    editor.focus();
  } else {
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    area.focus();
  }
});

function write(sql) {
  area.value = sql;
  if (editor) {
    editor.setValue(sql);
    editor.focus();
    editor.execCommand("goDocEnd");
  } else area.focus();
}

// ---------------------------------------------------------------- tabs
const KEY = `sluice-sql-tabs:${form?.dataset.user}`;
const MOST_TABS = 12;
const strip = document.getElementById("sql-tabs");
let tabs = [];
let current = 0;

function load() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) || "{}");
    tabs = Array.isArray(kept.tabs) ? kept.tabs.filter((one) => one.name) : [];
    current = Math.min(Math.max(kept.current || 0, 0), Math.max(tabs.length - 1, 0));
  } catch {
    tabs = [];
  }
  const given = area.value;
  if ("given" in form.dataset || !tabs.length) {
    const same = tabs.findIndex((one) => one.sql.trim() === given.trim());
    if (same >= 0) current = same;
    else add(given);
    // a reload shall come back to the tabs, not to what the link asked for
    if ("given" in form.dataset) history.replaceState(null, "", location.pathname);
  }
  open(current);
}

function add(sql) {
  const numbers = tabs.map((one) => Number(/\d+$/.exec(one.name)?.[0] || 0));
  tabs.push({ name: say("query", { number: Math.max(0, ...numbers) + 1 }), sql });
  if (tabs.length > MOST_TABS) tabs.shift();
  current = tabs.length - 1;
}

function open(number) {
  current = number;
  editor.setValue(tabs[current].sql);
  editor.clearHistory();
  draw();
}

function close(number) {
  tabs.splice(number, 1);
  if (!tabs.length) add("");
  open(Math.min(number < current ? current - 1 : current, tabs.length - 1));
  editor.focus();
}

function keep() {
  if (!tabs[current]) return;
  tabs[current].sql = editor.getValue();
  try {
    localStorage.setItem(KEY, JSON.stringify({ tabs, current }));
  } catch {
    // a full or forbidden store only means that tabs are gone after a reload
  }
}

function draw() {
  strip.hidden = false;
  strip.replaceChildren(
    ...tabs.map((tab, number) => {
      const box = document.createElement("span");
      box.className = number === current ? "tab is-current" : "tab";
      const choose = button(tab.name, () => {
        open(number);
        editor.focus();
      });
      choose.setAttribute("aria-pressed", String(number === current));
      const end = button("×", () => close(number));
      end.className = "tab-close";
      end.setAttribute("aria-label", say("close", { name: tab.name }));
      box.append(choose, end);
      return box;
    }),
    Object.assign(
      button("+", () => {
        add("");
        open(current);
        editor.focus();
      }),
      { className: "tab-new", ariaLabel: say("new_tab"), title: say("new_tab") },
    ),
  );
  keep();
}

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}

if (editor) {
  document.getElementById("run-all").hidden = false;
  load();
}

// ---------------------------------------------------------------- the result
// One cell is picked; arrows move it, Ctrl+C or the button copies it.
let picked = null;

function pick(cell) {
  picked?.classList.remove("is-picked");
  picked?.removeAttribute("tabindex");
  picked = cell;
  const copy = document.querySelector("[data-action=copy-cell]");
  if (copy) copy.disabled = !cell;
  if (!cell) return;
  cell.classList.add("is-picked");
  cell.tabIndex = -1;
  cell.focus();
}

document.addEventListener("click", (event) => {
  const cell = event.target.closest("#statement .result td");
  if (cell) pick(cell);
  if (event.target.closest("[data-action=copy-cell]")) copyCell();
});

document.addEventListener("keydown", (event) => {
  const table = event.target.closest?.("#statement .result");
  if (!table) return;
  const isCopy = event.key === "c" && (event.ctrlKey || event.metaKey);
  if (isCopy && picked && !String(getSelection())) {
    event.preventDefault();
    copyCell();
    return;
  }
  const to = next(event.key, table);
  if (to) {
    event.preventDefault();
    pick(to);
  }
});

function next(key, table) {
  if (!picked?.isConnected) {
    return key.startsWith("Arrow") ? table.querySelector("td") : null;
  }
  const row = picked.parentElement;
  const rows = { ArrowUp: row.previousElementSibling, ArrowDown: row.nextElementSibling };
  if (key in rows) return rows[key]?.cells[picked.cellIndex];
  if (key === "ArrowLeft") return picked.previousElementSibling;
  return key === "ArrowRight" ? picked.nextElementSibling : null;
}

async function copyCell() {
  if (!picked) return;
  const isNull = picked.querySelector(".is-null");
  const announcer = document.getElementById("announcer");
  try {
    await navigator.clipboard.writeText(isNull ? "" : picked.textContent);
    announcer.textContent = say("cell_copied");
  } catch {
    getSelection().selectAllChildren(picked);
    announcer.textContent = say("cell_selected");
  }
}

// ---------------------------------------------------------------- the clock
// The server tells seconds once a poll; between polls the clock runs here.
setInterval(() => {
  const clock = document.querySelector("[data-elapsed]");
  if (!clock || !clock.hasAttribute("data-running")) return;
  const seconds = Number(clock.dataset.elapsed) + 0.1;
  clock.dataset.elapsed = seconds;
  clock.textContent = `${seconds.toFixed(1)} s`;
}, 100);
