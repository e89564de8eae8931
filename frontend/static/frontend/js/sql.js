// SQL editor: line numbers, Ctrl/Cmd+Enter, the elapsed clock, results of history.
const area = document.getElementById("sql");
const lines = document.getElementById("sql-lines");

function number() {
  const count = area.value.split("\n").length;
  lines.textContent = Array.from({ length: count }, (_, i) => i + 1).join("\n");
}

if (area) {
  area.addEventListener("input", number);
  area.addEventListener("scroll", () => (lines.scrollTop = area.scrollTop));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      area.form.requestSubmit();
    }
  });
  number();
}

document.addEventListener("click", (event) => {
  const again = event.target.closest("[data-sql]");
  if (!again || !area) return;
  area.value = document.getElementById(again.dataset.sql).textContent;
  number();
  area.focus();
});

// The server tells seconds once a poll; between polls the clock runs here.
setInterval(() => {
  const clock = document.querySelector("[data-elapsed]");
  if (!clock || !clock.hasAttribute("data-running")) return;
  const seconds = Number(clock.dataset.elapsed) + 0.1;
  clock.dataset.elapsed = seconds;
  clock.textContent = `${seconds.toFixed(1)} s`;
}, 100);
