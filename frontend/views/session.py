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
from frontend.login_places import login_place, remember

BACKEND = "catalog.access.backend.SluiceBackend"


@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def log_in(request: HttpRequest) -> HttpResponse:
    wanted = wanted_page(request)
    if request.user.is_authenticated:
        return HttpResponseRedirect(wanted)
    if request.method != "POST":
        return login_page(request)
    name = request.POST.get("username", "").strip()
    try:
        with login_place(request, name):
            proven = prove(name, request.POST.get("password", ""), door="web")
    except SluiceError as error:
        return login_page(request, error=error, name=name)
    auth.login(request, proven.row, backend=BACKEND)
    response = HttpResponseRedirect(wanted)
    remember(response, name)
    return response


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    is_provider_s = "signed_in_with" in request.session
    auth.logout(request)
    response = redirect("frontend:login")
    if is_provider_s:  # the page then offers to end the provider's session, too
        response["Location"] += "?left=1"
    return response


def login_page(
    request: HttpRequest, *, error: SluiceError | None = None, name: str = ""
) -> HttpResponse:
    """The form, with what went wrong."""
    oidc = settings.SLUICE_OIDC
    context = {
        "error": error,
        "name": name,
        "next": wanted_page(request),
        "provider": oidc.label if oidc else "",
        "has_left": bool(oidc) and request.GET.get("left") == "1",
    }
    status = _status_of(error)
    return render(request, "frontend/login.html", context, status=status)


def wanted_page(request: HttpRequest) -> str:
    """Where the user wanted to go, within this site."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if not url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        return settings.LOGIN_REDIRECT_URL
    return wanted


def _status_of(error: SluiceError | None) -> int:
    if error is None:
        return 200
    return 403 if isinstance(error, AccessDenied) else 503
