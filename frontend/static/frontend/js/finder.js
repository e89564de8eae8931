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
