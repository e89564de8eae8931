// Starts Swagger UI, folded, in the theme of the page. What it asks goes with the page's own session, so changes carry
// the CSRF token; `validatorUrl` off, for nothing here asks another server.

const place = document.getElementById("api-docs");
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

function followTheme() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  root.classList.toggle("dark-mode", isDark);
}

followTheme();
system.addEventListener("change", followTheme);
new MutationObserver(followTheme).observe(root, { attributeFilter: ["data-theme"] });

window.SwaggerUIBundle({
  domNode: place,
  url: place.dataset.schema,
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: -1,
  filter: true,
  validatorUrl: "none",
  requestInterceptor(request) {
    if (new URL(request.url, location.href).origin === location.origin) {
      request.headers["X-CSRFToken"] = place.dataset.csrf;
    }
    return request;
  },
});
