// Table picker: ticks stay while pages and searches change; nothing is decided here.
const form = document.getElementById("picker");
const picked = new Set();

function hidden() {
  return form.querySelector("[name=selected]");
}

function read() {
  picked.clear();
  for (const line of hidden().value.split("\n")) if (line) picked.add(line);
}

function show() {
  hidden().value = [...picked].join("\n");
  const count = document.getElementById("picked-count");
  if (count) count.textContent = picked.size.toLocaleString("en");
  const boxes = [...form.querySelectorAll("input[data-table]")];
  for (const box of boxes) box.checked = picked.has(box.dataset.table);
  const all = document.getElementById("pick-page");
  if (all) {
    all.checked = boxes.length > 0 && boxes.every((box) => box.checked);
    all.indeterminate = !all.checked && boxes.some((box) => box.checked);
  }
}

if (form) {
  form.addEventListener("change", (event) => {
    const box = event.target;
    if (box.dataset.table) {
      if (box.checked) picked.add(box.dataset.table);
      else picked.delete(box.dataset.table);
      show();
    } else if (box.id === "pick-page") {
      for (const one of form.querySelectorAll("input[data-table]")) {
        if (box.checked) picked.add(one.dataset.table);
        else picked.delete(one.dataset.table);
      }
      show();
    }
  });
  form.addEventListener("keydown", (event) => {
    // Enter in the search field searches; only the button asks for the plan.
    if (event.key === "Enter" && event.target.type === "search") event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-action=pick-none]")) {
      picked.clear();
      show();
    }
  });
  document.addEventListener("htmx:afterSwap", show);
  read();
  show();
}
