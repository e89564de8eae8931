// When the server replaces a part of the page, by a poll or as the answer to a click: the
// focus stays where it was, what was opened stays open, and a new state is announced.
import { announce, say } from "./words.js";

const STOPS = "a[href], button, input, select, textarea, summary, [tabindex]";
const kept = new WeakMap(); // what is replaced: what was true of it

// What a person takes for the same thing, though the element is a new one.
function nameOf(element) {
  const { tagName, id, name } = element;
  const said = element.getAttribute("aria-label") || element.textContent.trim();
  return [tagName, id || element.getAttribute("href") || name || said].join(" ");
}

function placeOf(element, all) {
  const name = nameOf(element);
  const same = [...all].filter((one) => nameOf(one) === name);
  return { name, nth: same.indexOf(element) };
}

function find({ name, nth }, all) {
  const same = [...all].filter((one) => nameOf(one) === name);
  return same[nth] || same[0];
}

function stateOf(part) {
  const said = [...part.querySelectorAll("[data-announce]")];
  return said.map((one) => one.textContent.replace(/\s+/g, " ").trim()).join(", ");
}

function openedIn(part) {
  const all = part.querySelectorAll("summary");
  const opened = [...all].filter((one) => one.parentElement.open);
  return opened.map((one) => placeOf(one, all));
}

function tickedIn(part) {
  return [...part.querySelectorAll("input[type=checkbox][id]:checked")].map((box) => box.id);
}

document.addEventListener("htmx:beforeSwap", ({ detail: { target, requestConfig } }) => {
  const { elt } = requestConfig; // which may be in or beside what is replaced
  const here = document.activeElement;
  const isInside = target.contains(here);
  kept.set(target, {
    state: stateOf(target),
    isSearch: elt.matches("form[role=search]"),
    isInside,
    place: isInside && here !== target ? placeOf(here, target.querySelectorAll(STOPS)) : null,
    opened: elt === target ? openedIn(target) : [],
    ticked: elt === target ? tickedIn(target) : [],
  });
});

document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
  const before = kept.get(target);
  const part = target.isConnected ? target : document.getElementById(target.id);
  if (!before || !part) return;
  kept.delete(target);
  for (const place of before.opened) {
    const summary = find(place, part.querySelectorAll("summary"));
    if (summary) summary.parentElement.open = true;
  }
  for (const id of before.ticked) {
    const box = document.getElementById(id);
    if (box) box.checked = true;
  }
  if (before.isInside && !part.contains(document.activeElement)) focusIn(part, before.place);
  const now = stateOf(part);
  if (now && now !== before.state) announce(now);
  else if (before.isSearch) announce(say("rows", { number: rowsOf(part).length }));
});

// What is gone, such as the button to cancel what has ended, leaves the focus to its part.
function focusIn(part, place) {
  const again = place && find(place, part.querySelectorAll(STOPS));
  if (!again) part.tabIndex = -1;
  (again || part).focus({ preventScroll: true });
}

function rowsOf(part) {
  return part.querySelectorAll("tbody tr, .history > li");
}
