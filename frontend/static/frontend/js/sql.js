// SQL page: editor with completion from the catalogue, tabs, run selection, results.
// Without this file, or without CodeMirror, the plain textarea does the job.
import { announce, say } from "./words.js";
import { withChart } from "./sql_chart.js";
import { SqlEditor } from "./sql_editor.js";
import { Parameters } from "./sql_parameters.js";
import { currentChart, resultCame } from "./sql_result.js";
import { formatted, statementsOf } from "./sql_text.js";

const area = document.getElementById("sql");
const form = document.getElementById("sql-form");
const waiting = []; // statements of "Run all" that come after the one at work
const editor =
  window.CodeMirror && form
    ? new SqlEditor(area, { run, runAll, save, format, leave: leaveWithTab, changed })
    : null;
const parameters = new Parameters(document.getElementById("parameters"));

function changed() {
  parameters.follow(editor.value);
  keep();
}

function format() {
  editor.write(formatted(editor.value));
}

function leaveWithTab() {
  document.getElementById("run").focus();
}

// ---------------------------------------------------------------- running
let asked = null; // { sql, line }: what the next request carries instead of everything
let ran = null; // what "Run all" has done so far: [{ sql, url }]

function chosen() {
  return editor ? editor.chosen() : { sql: area.value, line: 0 };
}

function run() {
  waiting.length = 0;
  ran = null;
  form.requestSubmit(document.getElementById("run"));
}

function runAll() {
  waiting.length = 0;
  ran = [];
  waiting.push(...statementsOf(editor.value));
  runNext();
}

function runNext() {
  const next = waiting.shift();
  if (!next) return;
  asked = { sql: next.sql, line: editor.lineAt(next.start) };
  form.requestSubmit(document.getElementById("run"));
}

let sent = { sql: "", line: 0 };

document.addEventListener("htmx:configRequest", (event) => {
  const { elt, parameters: given } = event.detail;
  if (elt.id === "save-form") given.sql = withChart(area.value, currentChart());
  if (elt !== form) return;
  const wanted = asked || chosen();
  asked = null;
  const sql = parameters.filled(wanted.sql);
  if (sql === null) {
    event.preventDefault(); // a value is missing; its field has the focus
    waiting.length = 0;
    return;
  }
  sent = wanted;
  editor?.clearMark();
  given.sql = sql;
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target?.id !== "statement" && !document.getElementById("statement")) {
    return;
  }
  const state = document.querySelector("#statement [data-state]")?.dataset.state;
  noteRan(state);
  if (state === "FINISHED" && waiting.length) setTimeout(runNext, 0);
  if (["ERROR", "CANCELED", "TIMEDOUT"].includes(state)) waiting.length = 0;
  resultCame(sent.sql);
  markError();
  refreshHistory(state);
});

// Each statement of "Run all" keeps its result, behind a button of its own.
function noteRan(state) {
  const strip = document.getElementById("results");
  const url = document.getElementById("statement")?.dataset.url;
  if (strip.dataset.asked) {
    delete strip.dataset.asked;
  } else if (ran && url && !MOVING.includes(state) && !ran.some((one) => one.url === url)) {
    ran.push({ sql: sent.sql, url });
  }
  strip.hidden = !ran || ran.length < 2;
  if (strip.hidden) return;
  strip.replaceChildren(
    ...ran.map((one, number) => {
      const box = document.createElement("span");
      box.className = one.url === url ? "tab is-current" : "tab";
      const show = button(`${number + 1}: ${one.sql.replace(/\s+/g, " ").slice(0, 24)}`, () => {
        sent = { sql: one.sql, line: sent.line };
        strip.dataset.asked = "1";
        window.htmx.ajax("GET", one.url, { target: "#statement", swap: "outerHTML" });
      });
      show.title = one.sql;
      show.setAttribute("aria-pressed", String(one.url === url));
      box.append(show);
      return box;
    }),
  );
}

const MOVING = ["INITIALIZED", "PENDING", "RUNNING"];
let historyState = "";

function refreshHistory(state) {
  const moved = MOVING.includes(historyState);
  historyState = state || "";
  if (!moved || MOVING.includes(historyState)) return;
  // the gateway writes its line within moments
  setTimeout(() => {
    const url = document.querySelector("#history form")?.getAttribute("action");
    if (url) window.htmx.ajax("GET", url, { target: "#history", swap: "outerHTML" });
  }, 600);
}

function markError() {
  const place = document.querySelector("#statement [data-line]");
  if (editor && place) editor.markLine(sent.line + Number(place.dataset.line) - 1);
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
  if (tabs[current] && again.dataset.name) {
    const isOwn = "own" in again.dataset;
    Object.assign(tabs[current], { name: again.dataset.name, saved: isOwn && again.dataset.name });
    draw();
  }
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
    tabs = Array.isArray(kept.tabs) ? kept.tabs.filter((one) => one.name || one.number) : [];
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
  const number = Math.max(0, ...tabs.map((one) => one.number || 0)) + 1;
  tabs.push({ number, sql });
  if (tabs.length > MOST_TABS) tabs.shift();
  current = tabs.length - 1;
}

// Nobody chose a number: it is said in the language of the page.
function nameOf(tab) {
  return tab.name || say("query", { number: tab.number });
}

function open(number) {
  current = number;
  editor.open(tabs[current].sql);
  parameters.follow(editor.value);
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
      const choose = button(nameOf(tab), () => {
        open(number);
        editor.focus();
      });
      choose.setAttribute("aria-pressed", String(number === current));
      const end = button("×", () => close(number));
      end.className = "tab-close";
      end.setAttribute("aria-label", say("close", { name: nameOf(tab) }));
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
  for (const id of ["run-all", "format"]) document.getElementById(id).hidden = false;
  load();
}
document.getElementById("format")?.addEventListener("click", format);

// ---------------------------------------------------------------- the side
const sides = [...document.querySelectorAll("[data-side]")];

function showSide(name) {
  for (const one of sides) one.hidden = one.dataset.side !== name;
  for (const one of document.querySelectorAll("[data-show-side]")) {
    one.setAttribute("aria-pressed", String(one.dataset.showSide === name));
  }
}

document.addEventListener("click", ({ target }) => {
  const name = target.closest("[data-show-side]")?.dataset.showSide;
  if (name) showSide(name);
});
if (sides.length) {
  document.getElementById("side-tabs").hidden = false;
  showSide("tree");
}

// Ctrl+S: what is in the tab, under its name when it has one.
function save() {
  showSide("saved");
  const name = document.getElementById("saved-name");
  name.value = tabs[current]?.saved || name.value;
  if (name.value) document.getElementById("save-form").requestSubmit();
  else name.focus();
}

document.addEventListener("htmx:beforeRequest", ({ detail: { elt } }) => {
  if (elt.id !== "save-form" || !tabs[current]) return;
  tabs[current].saving = document.getElementById("saved-name").value.trim();
});

document.addEventListener("htmx:afterSwap", ({ detail: { requestConfig } }) => {
  const tab = tabs[current];
  if (requestConfig?.elt.id !== "save-form" || !tab?.saving) return;
  const isRefused = document.querySelector("#saved .callout.is-bad");
  if (!isRefused) {
    Object.assign(tab, { name: tab.saving, saved: tab.saving });
    announce(say("query_saved", { name: tab.saving }));
    draw();
  }
  delete tab.saving;
});

document.addEventListener("input", ({ target }) => {
  if (target.id !== "saved-q") return;
  const wanted = target.value.trim().toLowerCase();
  for (const one of document.querySelectorAll("#saved .history > li")) {
    one.hidden = Boolean(wanted) && !one.textContent.toLowerCase().includes(wanted);
  }
});

// ---------------------------------------------------------------- the clock
// The server tells seconds once a poll; between polls the clock runs here.
setInterval(() => {
  const clock = document.querySelector("[data-elapsed]");
  if (!clock || !clock.hasAttribute("data-running")) return;
  const seconds = Number(clock.dataset.elapsed) + 0.1;
  clock.dataset.elapsed = seconds;
  clock.textContent = `${seconds.toFixed(1)} s`;
}, 100);
