// Starts Swagger UI. What it asks goes with the page's own session, so changes carry
// the CSRF token; `validatorUrl` off, for nothing here asks another server.

const place = document.getElementById("api-docs");

window.SwaggerUIBundle({
  domNode: place,
  url: place.dataset.schema,
  deepLinking: true,
  docExpansion: "list",
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
