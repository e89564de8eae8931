"""Replies about users, grants, tokens and the audit. Secrets are in none of them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers as s

from catalog.access.policy import Role
from catalog.access.rules import as_value
from catalog.api.reply import Instant, OrNull, Reply, Texts, of
from catalog.models import ApiToken
from core.sentences import without_origins


# Of a row with its groups prefetched.
class User(Reply):
    name = s.CharField(source="username")
    groups = of(Texts(), lambda user: sorted(group.name for group in user.groups.all()))
    is_admin = s.BooleanField(source="is_superuser")
    is_active = s.BooleanField()
    created_at = Instant(source="date_joined")
    last_login = Instant(allow_null=True)


# Of a row with the names of its first members and the number of all.
class Group(Reply):
    name = s.CharField()
    members = s.ListField(
        source="first_members",
        child=s.CharField(),
        help_text="the first 100 by name; GET /users?group= pages all of them",
    )
    member_count = s.IntegerField()


class Invitation(Reply):
    id = s.IntegerField()
    name = s.CharField()
    groups = of(Texts(), lambda row: sorted(group.name for group in row.groups.all()))
    issued_by = s.CharField(source="issued_by.username")
    created_at = Instant()
    expires_at = Instant()


class InvitationOnce(Invitation):
    path = s.CharField(help_text="of the page that the link opens; shown this once")
    url = s.CharField(
        allow_null=True, help_text="the whole link, where SLUICE_PUBLIC_URL is set"
    )


def _of_a_privilege(privilege: str) -> str | None:
    return None if privilege in set(Role) else str(privilege)


def _of_a_role(privilege: str) -> str | None:
    return str(privilege) if privilege in set(Role) else None


class Via(Reply):
    id = s.IntegerField()
    principal = s.CharField(source="grantee")
    privilege = of(
        s.CharField(allow_null=True),
        lambda grant: _of_a_privilege(grant.privilege.value),
    )
    role = of(
        s.CharField(allow_null=True), lambda grant: _of_a_role(grant.privilege.value)
    )
    on = s.CharField()
    columns = of(Texts(help_text="empty for all"), lambda grant: sorted(grant.columns))


class Right(Reply):
    privilege = s.CharField(source="privilege.value")
    allowed = s.BooleanField(source="decision.allowed")
    reason = s.CharField(source="decision.reason")
    via = Via(many=True)


# `who` is the principal.
class EffectiveRights(Reply):
    principal = s.CharField()
    groups = of(Texts(source="who.groups"), lambda row: sorted(row["who"].groups))
    is_active = s.BooleanField(source="who.is_active")
    is_admin = s.BooleanField(source="who.is_admin")
    on = of(s.CharField(), lambda row: str(row["on"]))
    privileges = Right(many=True)


# Of a privilege or of a role; the other one is null.
class Grant(Reply):
    id = s.IntegerField()
    principal = s.CharField()
    privilege = of(
        s.CharField(allow_null=True), lambda row: _of_a_privilege(row.privilege)
    )
    role = of(s.CharField(allow_null=True), lambda row: _of_a_role(row.privilege))
    on = s.CharField()
    columns = Texts(help_text="empty for all")
    granted_by = s.CharField()
    granted_at = Instant()


class Rule(Reply):
    id = s.IntegerField()
    kind = of(s.CharField(), lambda row: as_value(row).kind.value)
    on = s.CharField()
    applies_to = Texts()
    mask = OrNull()
    expression = OrNull()
    created_by = s.CharField()
    created_at = Instant()
    updated_at = Instant()

    def get_fields(self) -> dict[str, s.Field[Any, Any, Any, Any]]:
        # "except" is a word of Python
        more = Texts(source="excepted")
        return {**super().get_fields(), "except": more}


class Explained(EffectiveRights):
    columns = Texts(
        source="found.columns",
        allow_null=True,
        help_text="the only ones that exist for the principal; null for all",
    )
    column_grants = Via(many=True, source="found.column_grants")
    filters = Rule(many=True, source="found.filters")
    masks = Rule(many=True, source="found.masks")


class Token(Reply):
    id = s.IntegerField()
    name = s.CharField()
    user = s.CharField(source="user.username")
    hint = s.CharField()
    created_at = Instant()
    expires_at = Instant(allow_null=True, source="ends_at")
    last_used_at = Instant(allow_null=True)

    @staticmethod
    def hint_of(row: ApiToken) -> str:
        """The public part."""
        return f"slt_{row.key_id}_…"


class TokenOnce(Token):
    token = s.CharField(help_text="shown this once")


class AuditEntry(Reply):
    id = s.IntegerField()
    at = Instant()
    actor = s.CharField()
    action = s.CharField()
    object = s.CharField()
    door = s.CharField()
    is_allowed = s.BooleanField()
    address = s.CharField()
    request_id = s.CharField()
    facts = of(s.DictField(), lambda row: without_origins(row.facts))
