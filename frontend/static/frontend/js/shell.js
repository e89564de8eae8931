// Theme toggle, keyboard shortcuts, copy buttons and quiet polling, for every page.
import "./swaps.js";
import { announce, say } from "./words.js";

const root = document.documentElement;

function isDark() {
  if (root.dataset.theme) return root.dataset.theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function toggleTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("sluice-theme", root.dataset.theme);
  announce(say(root.dataset.theme));
}

async function copyFrom(button) {
  const source = document.getElementById(button.dataset.copy);
  if (!source) return;
  const text = "value" in source ? source.value : source.textContent;
  try {
    await navigator.clipboard.writeText(text);
    announce(say("copied"));
    flash(button, say("copied"));
  } catch {
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    flash(button, say("selected"));
  }
}

function flash(button, text) {
  const label = button.querySelector("span") || button;
  const before = label.textContent;
  label.textContent = text;
  setTimeout(() => (label.textContent = before), 1600);
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-action], [data-copy]");
  if (!target) return;
  if (target.dataset.copy) copyFrom(target);
  if (target.dataset.action === "theme") toggleTheme();
  if (target.dataset.action === "keys") document.getElementById("keys")?.showModal();
  if (target.dataset.action === "menu") toggleMenu(target);
  if (target.dataset.action === "close") target.closest("dialog")?.close();
});

// A menu of actions closes by Escape, with the focus back on it, and by a click elsewhere.
addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector(".menu-of[open]");
  if (!menu) return;
  if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
  menu.open = false;
});
addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(".menu-of[open]"))
    if (!menu.contains(event.target)) menu.open = false;
});

function toggleMenu(button) {
  const isOpen = document.getElementById("nav").classList.toggle("is-open");
  button.setAttribute("aria-expanded", String(isOpen));
}

// ---------------------------------------------------------------- lists
// On narrow screens a list shows each row as a card: its cells learn the names of
// their columns. What scrolls sideways can be reached and scrolled by keyboard.
function dressTables() {
  for (const table of document.querySelectorAll("table.is-list:not([data-dressed])")) {
    table.dataset.dressed = "";
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    table.setAttribute("role", "table");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      let place = 0;
      for (const cell of row.cells) {
        const isHead = cell.parentElement.parentElement === table.tHead;
        const role = isHead ? "columnheader" : cell.scope ? "rowheader" : "cell";
        cell.setAttribute("role", role);
        if (!isHead && cell.colSpan === 1) cell.dataset.label = names[place] || "";
        if (!cell.children.length && !cell.textContent.trim()) cell.dataset.empty = "";
        place += cell.colSpan;
      }
    }
  }
  for (const part of document.querySelectorAll(".scroll")) {
    const isCut =
      part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight + 1;
    if (isCut) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
}
dressTables();
document.addEventListener("htmx:afterSettle", dressTables);
addEventListener("resize", dressTables);

// ---------------------------------------------------------------- keyboard
const GOES = {
  h: "home", s: "sources", t: "tables", e: "health", j: "jobs", a: "alerts", q: "sql",
};
let pressedG = 0;

function isTyping(event) {
  return event.target.matches?.("input, textarea, select, [contenteditable]");
}

// Who speaks to the computer, or hits keys without wanting to, can do without them.
const SINGLE_KEYS = "sluice-single-keys";
const keySwitch = document.getElementById("single-keys");

if (keySwitch) {
  keySwitch.checked = localStorage.getItem(SINGLE_KEYS) !== "off";
  keySwitch.addEventListener("change", () => {
    localStorage.setItem(SINGLE_KEYS, keySwitch.checked ? "on" : "off");
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  if (!keySwitch?.checked) return;
  if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "?") {
    document.getElementById("keys")?.showModal();
  } else if (event.key === "g") {
    pressedG = Date.now();
  } else if (GOES[event.key] && Date.now() - pressedG < 1200) {
    document.querySelector(`[data-go="${GOES[event.key]}"]`)?.click();
  }
});

// ---------------------------------------------------------------- forms
// Filters apply as soon as a choice is made; without JS the button does it.
document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
});

// One box that ticks all of a list.
document.addEventListener("change", ({ target }) => {
  const name = target.dataset?.tickAll;
  if (!name) return;
  for (const box of document.querySelectorAll(`input[name="${name}"]`)) {
    if (!box.disabled) box.checked = target.checked;
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-once]")) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "1";
});
addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach((f) => delete f.dataset.sent);
});

// What was refused is where the work goes on.
document.querySelector("main [aria-invalid=true]")?.focus();

// A box that leaves only those choices of a list whose text has what is typed.
document.addEventListener("input", ({ target }) => {
  const list = document.getElementById(target.dataset?.narrows);
  for (const one of list?.children || []) {
    const text = one.textContent.toLowerCase();
    one.hidden = !text.includes(target.value.trim().toLowerCase());
  }
});

// Type-to-confirm: the button stays off until the name is there.
document.addEventListener("input", (event) => {
  const field = event.target.closest("[data-confirm]");
  if (!field) return;
  const button = document.getElementById(field.dataset.button);
  if (button) button.disabled = field.value.trim() !== field.dataset.confirm;
});

// ---------------------------------------------------------------- polling
// A hidden tab does not poll. Nor does an element that another request is to replace:
// a poll that replaced it first would leave that answer without a place.
document.addEventListener("htmx:beforeRequest", (event) => {
  const { elt, target } = event.detail;
  if (elt.hasAttribute("data-poll")) {
    if (document.hidden || "awaited" in elt.dataset) event.preventDefault();
  } else if (target?.hasAttribute("data-poll")) {
    window.htmx.trigger(target, "htmx:abort");
    target.dataset.awaited = "";
  }
});
document.addEventListener("htmx:afterRequest", (event) => {
  const { elt, target } = event.detail;
  if (elt !== target) delete target?.dataset.awaited;
});

// A log stays at its end while it grows, unless somebody has scrolled up in it.
let logPlace = null;

function stayAtEnd() {
  const log = document.querySelector(".log");
  if (log) log.scrollTop = logPlace === null ? log.scrollHeight : logPlace;
}
document.addEventListener("htmx:beforeSwap", () => {
  const log = document.querySelector(".log");
  if (!log) return;
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  logPlace = isAtEnd ? null : log.scrollTop;
});
document.addEventListener("htmx:afterSwap", stayAtEnd);
stayAtEnd();

function setOffline(isOffline) {
  const banner = document.getElementById("offline");
  if (banner) banner.hidden = !isOffline;
}
const AWAY = [502, 503, 504]; // of Sluice without its database, or of a proxy before it
let failedPath = ""; // what failed is said until the same goes well

function setFailed(path) {
  failedPath = path;
  const banner = document.getElementById("failed");
  if (banner) banner.hidden = !path;
}
document.addEventListener("htmx:sendError", () => setOffline(true));
document.addEventListener("htmx:timeout", () => setOffline(true));
document.addEventListener("htmx:afterRequest", (event) => {
  if (!event.detail.successful) return;
  setOffline(false);
  if (event.detail.pathInfo.requestPath === failedPath) setFailed("");
});
document.addEventListener("htmx:responseError", (event) => {
  const status = event.detail.xhr.status;
  if (status === 401 || status === 403) location.reload();
  if (AWAY.includes(status)) setOffline(true);
  else if (status >= 500) setFailed(event.detail.pathInfo.requestPath);
});

// The search at the top: results while typing, arrows and Enter, Ctrl+K or ⌘K to get there.
const field = document.getElementById("top-search");
const box = document.getElementById("found");

function options() {
  return [...box.querySelectorAll("[role=option]")];
}

function show(isOpen) {
  box.hidden = !isOpen;
  field.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) field.removeAttribute("aria-activedescendant");
}

function choose(option) {
  for (const one of options()) one.setAttribute("aria-selected", String(one === option));
  if (!option) return;
  field.setAttribute("aria-activedescendant", option.id);
  option.scrollIntoView({ block: "nearest" });
}

function chosen() {
  return box.hidden ? null : box.querySelector("[aria-selected=true]");
}

function move(by) {
  const all = options();
  if (box.hidden || !all.length) return;
  const at = all.indexOf(chosen());
  choose(all[(at + by + all.length) % all.length] || all[0]);
}

if (field && box) {
  box.addEventListener("htmx:afterSwap", () => {
    show(document.activeElement === field);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && chosen()) {
      event.preventDefault();
      chosen().click();
    } else if (event.key === "Escape" && !box.hidden) {
      event.preventDefault();
      show(false);
    }
  });
  field.form.addEventListener("focusout", ({ relatedTarget }) => {
    if (!field.form.contains(relatedTarget)) show(false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "k" || event.altKey || event.shiftKey) return;
    if (event.ctrlKey === event.metaKey) return;
    event.preventDefault();
    field.focus();
    field.select();
    window.htmx.trigger(field, "find");
  });
}
