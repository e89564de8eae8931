"""Log in and out. Whether a name and password are right is the catalog's matter."""

from __future__ import annotations

from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from catalog.access.authentication import prove
from core.errors import AccessDenied, SluiceError

BACKEND = "catalog.access.backend.SluiceBackend"


@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def log_in(request: HttpRequest) -> HttpResponse:
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if not url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        wanted = settings.LOGIN_REDIRECT_URL
    if request.user.is_authenticated:
        return HttpResponseRedirect(wanted)
    name, error = request.POST.get("username", "").strip(), None
    if request.method == "POST":
        try:
            proven = prove(name, request.POST.get("password", ""), door="web")
        except SluiceError as failed:
            error = failed
        else:
            auth.login(request, proven.row, backend=BACKEND)
            return HttpResponseRedirect(wanted)
    return render(
        request,
        "frontend/login.html",
        {"error": error, "name": name, "next": wanted},
        status=_status_of(error),
    )


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    auth.logout(request)
    return redirect("frontend:login")


def _status_of(error: SluiceError | None) -> int:
    if error is None:
        return 200
    return 403 if isinstance(error, AccessDenied) else 503
