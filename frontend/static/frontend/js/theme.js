// Loaded before the first paint: applies the theme the user chose, if any.
(() => {
  document.documentElement.classList.add("js");
  const chosen = localStorage.getItem("sluice-theme");
  if (chosen === "dark" || chosen === "light") {
    document.documentElement.dataset.theme = chosen;
  }
})();
