// Loaded before the first paint: applies the theme the user chose, if any, and tells
// the server the browser's time zone.
(() => {
  document.documentElement.classList.add("js");
  const chosen = localStorage.getItem("sluice-theme");
  if (chosen === "dark" || chosen === "light") {
    document.documentElement.dataset.theme = chosen;
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  const kept = `sluice-zone=${encodeURIComponent(zone)}`;
  document.cookie = `${kept}; path=/; max-age=31536000; SameSite=Lax`;
})();
