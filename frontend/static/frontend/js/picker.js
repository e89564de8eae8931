// Table picker: a list of any length of which only what is seen is in the page.
// Ticks stay while searches change; "all of this search" is one wish, not many names.
import { say } from "./words.js";
const form = document.getElementById("picker");
const list = document.getElementById("pick-list");
const STRETCH = 200;
const ROW = 40;

const picked = new Set();
let all = null; // { q, database, show, free, without: Set } once "Choose all" was pressed
let search = { q: "", database: "", show: "" };
let total = 0;
let free = 0;
let cannot = 0;
let stretches = new Map();
let asked = 0;
let view, sizer, layer;
let lastTicked = null;
let current = 0; // the row whose box Tab reaches; arrows go to the others

function field(name) {
  return form.querySelector(`[name=${name}]`);
}

function isAllOfThis() {
  return (
    all &&
    all.q === search.q &&
    all.database === search.database &&
    (all.show === search.show || all.show === "free" || !all.show)
  );
}

function isTicked(name) {
  if (picked.has(name)) return true;
  return Boolean(isAllOfThis() && !all.without.has(name));
}

function tick(name, isOn) {
  if (isAllOfThis()) {
    if (isOn) all.without.delete(name);
    else all.without.add(name);
    if (!isOn) picked.delete(name);
  } else if (isOn) picked.add(name);
  else picked.delete(name);
}

// ---------------------------------------------------------------- what is chosen
function tell() {
  field("selected").value = [...picked].join("\n");
  const more = all ? all.free - all.without.size : 0;
  const number = (value) => value.toLocaleString("en");
  document.getElementById("picked-count").textContent = number(picked.size + more);
  const what = all && [all.q && `“${all.q}”`, all.database].filter(Boolean).join(" · ");
  document.getElementById("picked-how").textContent = all
    ? say(what ? "picked_of" : "picked_all", { number: number(all.free), what }) +
      (all.without.size ? say("picked_but", { number: number(all.without.size) }) : "") +
      (picked.size ? say("picked_more", { number: number(picked.size) }) : "")
    : "";
  const fields = document.getElementById("pick-all-fields");
  fields.replaceChildren();
  if (!all) return;
  const sent = {
    all_matching: "1",
    matching_q: all.q,
    matching_database: all.database,
    matching_free: all.free,
    unselected: [...all.without].join("\n"),
  };
  for (const [name, value] of Object.entries(sent)) {
    // a textarea, because an input would lose the line breaks
    const one = document.createElement("textarea");
    one.name = name;
    one.value = value;
    fields.append(one);
  }
}

// What was chosen before an error of the form, from what the form had sent.
function restore() {
  const sent = (name) => form.querySelector(`#pick-all-fields [name=${name}]`)?.value || "";
  if (!sent("all_matching")) return;
  const without = new Set(sent("unselected").split("\n").filter(Boolean));
  const found = { q: sent("matching_q"), database: sent("matching_database"), show: "" };
  all = { ...found, free: Number(sent("matching_free")), without };
  document.getElementById("pick-q").value = found.q;
  document.getElementById("pick-db").value = found.database;
}

// ---------------------------------------------------------------- the list
function build() {
  view = document.createElement("div");
  view.className = "vlist";
  view.tabIndex = 0;
  view.setAttribute("role", "group");
  view.setAttribute("aria-labelledby", "pick-title");
  sizer = document.createElement("div");
  sizer.className = "vlist-sizer";
  layer = document.createElement("div");
  layer.className = "vlist-layer";
  sizer.append(layer);
  view.append(sizer);
  list.replaceChildren(view);
  let isWaiting = false;
  view.addEventListener("scroll", () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      draw();
    });
  });
  view.addEventListener("change", ticked);
  view.addEventListener("keydown", moved);
  view.addEventListener("focusin", ({ target }) => {
    const here = target.closest(".vrow");
    if (here) current = Number(here.dataset.index);
  });
}

async function load(offset, counts) {
  const parameters = new URLSearchParams({ ...search, offset });
  if (counts) parameters.set("count", "1");
  const mine = asked;
  stretches.set(offset, null);
  const response = await fetch(`${form.dataset.rows}?${parameters}`);
  if (mine !== asked) return;
  if (!response.ok) {
    stretches.delete(offset);
    return;
  }
  const found = await response.json();
  if (mine !== asked) return;
  stretches.set(offset, found.items);
  if (counts) {
    total = found.total;
    free = found.free;
    cannot = found.cannot;
    sizer.style.height = `${Math.max(total, 1) * ROW}px`;
    describe();
  }
  draw();
}

function describe() {
  const number = (value) => value.toLocaleString("en");
  document.getElementById("pick-found").textContent =
    say("found", { number: number(total) }) +
    (free < total ? say("found_free", { number: number(free) }) : "") +
    (cannot ? say("found_cannot", { number: number(cannot) }) : "");
  const button = document.getElementById("pick-all");
  button.hidden = free < 2;
  button.textContent = say("select_all", { number: number(free) });
}

function start() {
  asked += 1;
  stretches = new Map();
  lastTicked = null;
  current = 0;
  view.scrollTop = 0;
  load(0, true);
}

function item(index) {
  return stretches.get(Math.floor(index / STRETCH) * STRETCH)?.[index % STRETCH];
}

function draw() {
  if (!view.isConnected) return;
  const first = Math.max(0, Math.floor(view.scrollTop / ROW) - 6);
  const shown = Math.ceil(view.clientHeight / ROW) + 12;
  const last = Math.min(total, first + shown);
  for (let at = Math.floor(first / STRETCH) * STRETCH; at < last; at += STRETCH) {
    if (!stretches.has(at)) load(at, false);
  }
  const focused = document.activeElement?.closest?.(".vrow")?.dataset.index;
  layer.style.transform = `translateY(${first * ROW}px)`;
  const rows = [];
  for (let index = first; index < last; index += 1) rows.push(row(index));
  if (!total && stretches.get(0)) rows.push(empty());
  layer.replaceChildren(...rows);
  placeStop();
  if (focused !== undefined) {
    layer.querySelector(`[data-index="${focused}"] input`)?.focus({ preventScroll: true });
  }
}

// One stop for Tab, so that it gets past a list of any length.
function placeStop() {
  const boxes = [...layer.querySelectorAll("input:not(:disabled)")];
  const isThere = (box) => Number(box.closest(".vrow").dataset.index) >= current;
  const stop = boxes.find(isThere) || boxes[0];
  for (const box of boxes) box.tabIndex = box === stop ? 0 : -1;
}

function isFree(one) {
  return !one.carried && !one.cannot;
}

function part(tag, name, text) {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
}

function row(index) {
  const one = item(index);
  const made = part("div", "vrow", "");
  made.dataset.index = index;
  if (!one) {
    made.append(part("span", "muted", "…"));
    return made;
  }
  const name = `${one.database}.${one.name}`;
  const box = document.createElement("input");
  box.type = "checkbox";
  box.dataset.table = name;
  box.disabled = !isFree(one);
  box.checked = isFree(one) && isTicked(name);
  const label = document.createElement("label");
  const words = part("span", "vrow-name", "");
  words.append(part("span", "muted", `${one.database}.`), part("strong", "", one.name));
  words.title = one.comment ? `${name}: ${one.comment}` : name;
  label.append(box, words);
  const why = one.cannot ? say("cannot", { reason: one.cannot }) : "";
  made.append(
    label,
    part("span", "vrow-number", say("rows", { number: one.rows })),
    part("span", "vrow-number", one.size),
    part("span", "vrow-carried muted", one.carried ? say("synced_as", { name: one.carried }) : why),
  );
  made.lastChild.title = one.carried || (why && say("remedy", { why, remedy: one.way_out }));
  if (why) box.setAttribute("aria-description", made.lastChild.title);
  return made;
}

function empty() {
  const made = part("div", "empty", "");
  made.append(part("p", "", say("no_match")));
  return made;
}

let isShift = false;
document.addEventListener("click", (event) => (isShift = event.shiftKey), true);

function ticked(event) {
  const box = event.target;
  if (!box.dataset.table) return;
  const index = Number(box.closest(".vrow").dataset.index);
  const isOn = box.checked;
  tick(box.dataset.table, isOn);
  if (isShift && lastTicked !== null) {
    const [from, to] = [lastTicked, index].sort((a, b) => a - b);
    for (let at = from; at <= to; at += 1) {
      const one = item(at);
      if (one && isFree(one)) tick(`${one.database}.${one.name}`, isOn);
    }
  }
  lastTicked = index;
  tell();
  draw();
}

function moved(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const here = event.target.closest(".vrow");
  let index = here ? Number(here.dataset.index) + step : current;
  while (index >= 0 && index < total && item(index) && !isFree(item(index))) {
    index += step;
  }
  if (index < 0 || index >= total) return;
  const top = index * ROW;
  if (top < view.scrollTop) view.scrollTop = top;
  const bottom = top + ROW - view.clientHeight;
  if (bottom > view.scrollTop) view.scrollTop = bottom;
  draw();
  layer.querySelector(`[data-index="${index}"] input`)?.focus({ preventScroll: true });
}

// ---------------------------------------------------------------- searching
let timer = 0;

function searched() {
  search = {
    q: document.getElementById("pick-q").value.trim(),
    database: document.getElementById("pick-db").value,
    show: document.getElementById("pick-show").value,
  };
  start();
}

if (form && list) {
  for (const id of ["pick-q", "pick-db", "pick-show"]) {
    const control = document.getElementById(id);
    control.removeAttribute("hx-get"); // this file asks instead
    window.htmx?.process(control);
    control.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(searched, id === "pick-q" ? 200 : 0);
    });
  }
  form.addEventListener("keydown", (event) => {
    // Enter in the search field searches; only the button asks for the plan.
    if (event.key === "Enter" && event.target.type === "search") event.preventDefault();
  });
  document.getElementById("pick-all").addEventListener("click", () => {
    all = { ...search, free, without: new Set() };
    picked.clear();
    tell();
    draw();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-action=pick-none]")) return;
    picked.clear();
    all = null;
    tell();
    draw();
  });
  for (const line of field("selected").value.split("\n")) if (line) picked.add(line);
  restore();
  build();
  searched();
  tell();
}
