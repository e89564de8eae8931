// SQL page: editor with completion from the catalogue, tabs, run selection, results.
// Without this file, or without CodeMirror, the plain textarea does the job.
import { announce, say } from "./words.js";
import { SqlEditor } from "./sql_editor.js";
import { statementsOf } from "./sql_text.js";

const area = document.getElementById("sql");
const form = document.getElementById("sql-form");
const waiting = []; // statements of "Run all" that come after the one at work
const editor =
  window.CodeMirror && form
    ? new SqlEditor(area, { run, runAll, leave: leaveWithTab, changed: keep })
    : null;

function leaveWithTab() {
  document.getElementById("run").focus();
}

// ---------------------------------------------------------------- running
let asked = null; // { sql, line }: what the next request carries instead of everything

function chosen() {
  return editor ? editor.chosen() : { sql: area.value, line: 0 };
}

function run() {
  waiting.length = 0;
  form.requestSubmit(document.getElementById("run"));
}

function runAll() {
  waiting.length = 0;
  waiting.push(...statementsOf(editor.value));
  runNext();
}

function runNext() {
  const next = waiting.shift();
  if (!next) return;
  asked = { sql: next.sql, line: editor.lineAt(next.start) };
  form.requestSubmit(document.getElementById("run"));
}

let sentFrom = 0;

document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt !== form) return;
  const wanted = asked || chosen();
  asked = null;
  sentFrom = wanted.line;
  editor?.clearMark();
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
  if (editor && place) editor.markLine(sentFrom + Number(place.dataset.line) - 1);
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
    editor.insert(text);
  } else {
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    area.focus();
  }
});

function write(sql) {
  if (editor) {
    editor.write(sql);
  } else {
    area.value = sql;
    area.focus();
  }
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
  editor.open(tabs[current].sql);
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
  tabs[current].sql = editor.value;
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
  try {
    await navigator.clipboard.writeText(isNull ? "" : picked.textContent);
    announce(say("cell_copied"));
  } catch {
    getSelection().selectAllChildren(picked);
    announce(say("cell_selected"));
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
