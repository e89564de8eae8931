"""Alerts, the open ones first; and for administrators, who is told of them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.debug import sensitive_post_parameters

from catalog.access.grants import grants_of
from catalog.access.policy import Principal, Privilege, granting
from core.errors import InvalidRequest, SluiceError
from core.translation import translated
from frontend.forms.alerts import KIND_TITLES, SubscriptionForm, TargetForm
from frontend.pages import (
    NOT_CONFIRMED,
    PAGE_SIZE,
    PageRequest,
    attempt,
    back,
    is_confirmed,
    numbered_page,
    page,
    refusal_of,
    ticked,
)
from frontend.reading.alerts import (
    SPANS,
    STATES,
    TITLES,
    alerts_shown,
    rows_of,
    wanted_from,
)
from frontend.typed_secrets import forget, kept_secret
from ingest.alerts import mutes, targets
from ingest.alerts.rules import AGAIN, ALERTS, SEVERITIES
from ingest.alerts.selectors import (
    MOST_COUNTED,
    acknowledge,
    alert_for,
    dismiss,
    open_count,
)
from ingest.models.alerts import AlertTarget

NEW_TARGET = "alert-target"  # no source has a name like that


@page()
def alert_list(request: PageRequest) -> HttpResponse:
    get = request.GET.get
    wanted = wanted_from(
        get("state", ""), get("kind", ""), get("severity", ""), get("q", "")
    )
    found = numbered_page(request, alerts_shown(request.principal, wanted))
    rows = rows_of(request.principal, found.items)
    context = {
        "alerts": found,
        "rows": rows,
        "wanted": wanted,
        "states": STATES,
        "kinds": [(kind, TITLES[kind]) for kind in ALERTS],
        "severities": SEVERITIES,
        "spans": SPANS,
        "mutes": mutes.mutes_for(request.principal),
        "may_mute": any(row.may_close for row in rows),
        "may_plan": _may_mute_something(request.principal),
        "is_filtered": bool(wanted.kind or wanted.severity or wanted.q),
    }
    return render(request, "frontend/alerts/list.html", context)


def _may_mute_something(principal: Principal) -> bool:
    """Also while no alert is open: before work that is planned."""
    held = {one.privilege for one in grants_of(principal)}
    return principal.is_admin or bool(held & granting(Privilege.OPERATE))


@page()
def badge(request: PageRequest) -> HttpResponse:
    """The number beside the navigation's entry; fetched alone, so no page waits."""
    count = open_count(request.principal)
    context = {"count": count, "is_more": count >= MOST_COUNTED}
    return render(request, "frontend/alerts/badge.html", context)


@page("POST")
def dismiss_alert(request: PageRequest, alert_id: int) -> HttpResponse:
    kind = alert_for(request.principal, alert_id).kind
    attempt(
        request,
        gettext("Closed. A new alert opens %(when)s.") % {"when": gettext(AGAIN[kind])},
        lambda: dismiss(request.principal, alert_id),
    )
    return back(request, "alerts")


@page("POST")
def change_many(request: PageRequest) -> HttpResponse:
    """Acknowledge, close or mute each ticked alert, as its own rights allow."""
    ids = ticked(request.POST, "alert")[:PAGE_SIZE]
    done, refused = 0, ""
    for alert_id in ids:
        try:
            _change(request, alert_id)
        except SluiceError as error:
            refused = refused or translated(error.as_sentence)
        else:
            done += 1
    if not ids:
        messages.error(request, gettext("Tick at least one alert."))
    if done:
        said = ngettext("%(n)s alert changed.", "%(n)s alerts changed.", done)
        messages.success(request, said % {"n": done})
    if refused:
        messages.error(request, refused)
    return back(request, "alerts")


def _change(request: PageRequest, alert_id: int) -> None:
    principal, wish = request.principal, request.POST.get("do", "")
    if wish == "acknowledge":
        acknowledge(principal, alert_id)
    elif wish == "close":
        dismiss(principal, alert_id)
    elif wish == "mute":
        alert = alert_for(principal, alert_id)
        on = mutes.securable_on(alert)
        mutes.mute(principal, on, seconds=_seconds(request), kind=alert.kind)
    else:
        raise InvalidRequest(gettext("Choose what to do with the ticked alerts."))


def _seconds(request: PageRequest) -> int:
    text = request.POST.get("seconds", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


@page("POST")
def mute(request: PageRequest) -> HttpResponse:
    on, kind = request.POST.get("on", "").strip(), request.POST.get("kind", "")
    attempt(
        request,
        gettext("Alerts of %(on)s are muted.") % {"on": on},
        lambda: mutes.mute(request.principal, on, seconds=_seconds(request), kind=kind),
    )
    return back(request, "alerts")


@page("POST")
def unmute(request: PageRequest, mute_id: int) -> HttpResponse:
    attempt(
        request,
        gettext("Muting ended. What is still open there is announced now."),
        lambda: mutes.unmute(request.principal, mute_id),
    )
    return back(request, "alerts")


@sensitive_post_parameters("secret", "url")
@page("GET", "POST", for_admins=True)
def target_list(request: PageRequest) -> HttpResponse:
    kept = kept_secret(request, NEW_TARGET, request.POST.get("secret", ""))
    kind = request.GET.get("kind", "")
    form = TargetForm(request.POST or None, kind=kind, kept=kept)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        new, by = form.new_target(), request.principal.name
        done = gettext("%(name)s added. Send a test to try it.") % {"name": new.name}
        error = refusal_of(request, done, lambda: targets.create_target(new, by=by))
        if error is None:
            forget(request, NEW_TARGET)
            return redirect("frontend:alert-target", new.name)
    context = {
        "targets": [
            (row, KIND_TITLES[row.kind], targets.scope_text(row))
            for row in AlertTarget.objects.all()
        ],
        "form": form,
        "kind_titles": KIND_TITLES.items(),
        "error": error,
    }
    return render(request, "frontend/alerts/targets.html", context)


@page("GET", "POST", for_admins=True)
def target_page(request: PageRequest, name: str) -> HttpResponse:
    """A POST changes what it is told of; where messages go stays."""
    row = targets.target_named(name)
    known = {
        "language": row.language,
        "on": targets.scope_text(row) or "",
        "kinds": row.kinds,
    }
    form = SubscriptionForm(request.POST or None, initial=known)
    error: SluiceError | None = None
    if request.method == "POST" and form.is_valid():
        by, given = request.principal.name, form.cleaned_data
        error = refusal_of(
            request,
            gettext("Subscription changed."),
            lambda: targets.change_target(row.name, by=by, **given),
        )
        if error is None:
            return redirect("frontend:alert-target", row.name)
    deliveries = numbered_page(request, row.deliveries.select_related("alert"))
    context = {
        "target": row,
        "kind_title": KIND_TITLES[row.kind],
        "form": form,
        "error": error,
        "deliveries": deliveries,
        "is_waiting": any(one.next_try_at for one in deliveries.items),
    }
    return render(request, "frontend/alerts/target.html", context)


@page("POST", for_admins=True)
def send_test(request: PageRequest, name: str) -> HttpResponse:
    actor = request.principal.name
    attempt(
        request,
        gettext("Test requested; the delivery log shows its result."),
        lambda: targets.send_test(name, by=actor),
    )
    return redirect("frontend:alert-target", name)


@page("POST", for_admins=True)
def resume(request: PageRequest, name: str) -> HttpResponse:
    actor = request.principal.name
    attempt(
        request,
        gettext("Retry requested."),
        lambda: targets.resume_target(name, by=actor),
    )
    return redirect("frontend:alert-target", name)


@page("GET", "POST", for_admins=True)
def delete(request: PageRequest, name: str) -> HttpResponse:
    row = targets.target_named(name)
    error: SluiceError | None = None
    if request.method == "POST":
        if is_confirmed(request, row.name):
            targets.delete_target(row.name, by=request.principal.name)
            message = gettext("%(name)s deleted.") % {"name": row.name}
            messages.success(request, message)
            return redirect("frontend:alert-targets")
        error = SluiceError(gettext(NOT_CONFIRMED))
    waiting = row.deliveries.filter(next_try_at__isnull=False).count()
    context = {
        "target": row,
        "confirmed": row.name,
        "waiting": waiting,
        "error": error,
    }
    return render(request, "frontend/alerts/delete.html", context)
