"""Users and grants of a document, by the services that REST uses."""

from __future__ import annotations

from dataclasses import replace

from django.contrib.auth.models import User
from django.utils import timezone

from catalog.access import grants, rules, users
from catalog.models import ExternalIdentity
from config.config_export.diff import Change, with_password

ACTOR = "manage.py"
FIXED = "which user this is at a directory is settled at the first login"


def apply_user(change: Change, password: str | None, notes: list[str]) -> Change:
    """A user without a password cannot log in by one; `notes` says so."""
    item, name = change.item, change.item.key[0]
    if change.action == "extra":
        return change
    if change.action == "create":
        users.create_user(name, password, by=ACTOR)
        if identity := item.fields.get("identity"):
            user = User.objects.get(username=name)
            ExternalIdentity.objects.create(
                user=user, checked_at=timezone.now(), **identity
            )
    elif any(each.field == "identity" for each in change.differences):
        return replace(change, action="skip", reason=FIXED)
    row = User.objects.get(username=name)
    fields = dict(item.fields)
    if password is not None and not row.check_password(password):
        change = with_password(change)
    is_local = "identity" not in fields
    if not row.has_usable_password() and change.action == "create" and is_local:
        notes.append(f"user {name} needs a password: PATCH /api/v1/users/{name}")
    if change.action == "unchanged":
        return change
    groups = fields.get("groups")
    users.update_user(
        name,
        users.UserChange(
            password=password,
            groups=None if groups is None else tuple(groups),
            is_admin=fields.get("is_admin"),
            is_active=fields.get("is_active"),
        ),
        by=ACTOR,
    )
    return change


def apply_grant(change: Change) -> Change:
    principal, held, on, *columns = change.item.key
    check = (
        grants.check_role if "role" in change.item.fields else grants.check_privilege
    )
    grants.grant(
        principal=principal, privilege=check(held), on=on, columns=columns, by=ACTOR
    )
    return change


def apply_rule(change: Change) -> Change:
    """A table may be there later than what keeps its rows back."""
    stated = rules.as_stated(change.item.fields)
    rules.save_rule(stated, by=ACTOR, allow_unknown=True)
    return change
