// Loaded before the first paint: applies the theme the user chose, if any.
(() => {
  const chosen = localStorage.getItem("sluice-theme");
  if (chosen === "dark" || chosen === "light") {
    document.documentElement.dataset.theme = chosen;
  }
})();
