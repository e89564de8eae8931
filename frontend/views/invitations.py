"""Invitations: administrators make links, and who has one sets a password by it."""

from __future__ import annotations

from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib import auth, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language, gettext, override
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from catalog.access.invitations import (
    NewInvitation,
    accept,
    invitation_of,
    invite,
    open_invitations,
    withdraw,
)
from core.errors import SluiceError
from frontend.forms.people import InvitationForm
from frontend.pages import PageRequest, attempt, back, numbered_page, page
from frontend.views.session import BACKEND
from ingest.alerts import mail


@page("GET", "POST", for_admins=True)
def invitation_list(request: PageRequest) -> HttpResponse:
    """A new link is in the reply to its own POST and nowhere else; by mail not even
    there, once the mail server has taken it."""
    form = InvitationForm(request.POST or None)
    context: dict[str, object] = {}
    if request.method == "POST" and form.is_valid():
        try:
            made = invite(**form.values(), by=request.user)
        except SluiceError as refused:
            context["error"] = refused
        else:
            context |= _handed_over(request, made, form.cleaned_data)
            form = InvitationForm()
    rows = open_invitations().prefetch_related("groups").order_by("name")
    context |= {"invitations": numbered_page(request, rows), "form": form}
    return render(request, "frontend/admin/invitations.html", context)


def _handed_over(
    request: PageRequest, made: NewInvitation, given: Mapping[str, Any]
) -> dict[str, object]:
    address = given.get("address", "")
    base = settings.SLUICE_PUBLIC_URL or f"{request.scheme}://{request.get_host()}"
    link = f"{base}{made.path}"
    if not (address and settings.SLUICE_SMTP):
        return {"new": made, "link": link}
    with override(given["language"] or get_language()):
        message = _letter(made, link, to=address)
    answer = mail.send(message, settings.SLUICE_SMTP)
    if not answer.error:
        return {"new": made, "mailed_to": address}
    return {"new": made, "link": link, "mail_error": answer.error}


def _letter(made: NewInvitation, link: str, *, to: str) -> EmailMessage:
    """In the active language."""
    text = gettext(
        "You are invited to Sluice as %(name)s.\n\n"
        "Set your password here, once, before %(until)s UTC:\n%(link)s\n"
    )
    until = f"{made.row.expires_at:%Y-%m-%d %H:%M}"
    return mail.compose(
        sender=settings.SLUICE_SMTP_FROM,
        to=to,
        subject=gettext("Invitation to Sluice"),
        text=text % {"name": made.row.name, "until": until, "link": link},
        key=str(uuid4()),
    )


@page("POST", for_admins=True)
def invitation_withdraw(request: PageRequest, invitation_id: int) -> HttpResponse:
    actor = request.principal.name
    attempt(
        request,
        gettext("Invitation withdrawn: its link no longer works."),
        lambda: withdraw(invitation_id, by=actor),
    )
    return back(request, "invitations")


@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "POST"])
def invited(request: HttpRequest, text: str) -> HttpResponse:
    """For who has the link. Reading it uses nothing up: mail scanners do so, too."""
    if request.user.is_authenticated:
        context: dict[str, object] = {"is_logged_in": True}
        return render(request, "frontend/invited.html", context, status=403)
    try:
        invitation = invitation_of(text)
    except SluiceError as gone:
        return render(request, "frontend/invited.html", {"gone": gone}, status=404)
    error: SluiceError | None = None
    is_mistyped = False
    if request.method == "POST":
        password = request.POST.get("password", "")[:1000]
        is_mistyped = password != request.POST.get("again", "")
        if not is_mistyped:
            try:
                user = accept(text, password)
            except SluiceError as refused:
                error = refused
            else:
                auth.login(request, user, backend=BACKEND)
                welcome = gettext("Welcome, %(name)s.") % {"name": user.username}
                messages.success(request, welcome)
                return redirect("frontend:home")
    context = {"invitation": invitation, "error": error, "is_mistyped": is_mistyped}
    status = 400 if error or is_mistyped else 200
    return render(request, "frontend/invited.html", context, status=status)
