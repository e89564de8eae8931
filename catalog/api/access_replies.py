"""Replies about users, grants, tokens and the audit. Secrets are in none of them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User as UserRow
from rest_framework import serializers as s

from catalog.access.policy import HeldGrant, Role
from catalog.access.rules import as_value
from catalog.api.reply import Body, Instant, OrNull, Reply, Texts
from catalog.models import AccessRule, ApiToken
from catalog.models import Grant as GrantRow
from catalog.models import Invitation as InvitationRow
from core.sentences import without_origins


# Of a row with its groups prefetched.
class User(Reply):
    name = s.CharField(source="username")
    groups = Texts()
    is_admin = s.BooleanField(source="is_superuser")
    is_active = s.BooleanField()
    created_at = Instant(source="date_joined")
    last_login = Instant(allow_null=True)

    @staticmethod
    def groups_of(user: UserRow) -> list[str]:
        return sorted(group.name for group in user.groups.all())


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
    groups = Texts()
    issued_by = s.CharField(source="issued_by.username")
    created_at = Instant()
    expires_at = Instant()

    @staticmethod
    def groups_of(row: InvitationRow) -> list[str]:
        return sorted(group.name for group in row.groups.all())


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
    privilege = s.CharField(allow_null=True)
    role = s.CharField(allow_null=True)
    on = s.CharField()
    columns = Texts(help_text="empty for all")

    @staticmethod
    def columns_of(grant: HeldGrant) -> list[str]:
        return sorted(grant.columns)

    @staticmethod
    def privilege_of(grant: HeldGrant) -> str | None:
        return _of_a_privilege(grant.privilege.value)

    @staticmethod
    def role_of(grant: HeldGrant) -> str | None:
        return _of_a_role(grant.privilege.value)


class Right(Reply):
    privilege = s.CharField(source="privilege.value")
    allowed = s.BooleanField(source="decision.allowed")
    reason = s.CharField(source="decision.reason")
    via = Via(many=True)


class EffectiveRights(Reply):
    principal = s.CharField()
    groups = Texts()
    is_active = s.BooleanField()
    is_admin = s.BooleanField()
    on = s.CharField()
    privileges = Right(many=True)


# Of a privilege or of a role; the other one is null.
class Grant(Reply):
    id = s.IntegerField()
    principal = s.CharField()
    privilege = s.CharField(allow_null=True)
    role = s.CharField(allow_null=True)
    on = s.CharField()
    columns = Texts(help_text="empty for all")
    granted_by = s.CharField()
    granted_at = Instant()

    @staticmethod
    def privilege_of(row: GrantRow) -> str | None:
        return _of_a_privilege(row.privilege)

    @staticmethod
    def role_of(row: GrantRow) -> str | None:
        return _of_a_role(row.privilege)


class Rule(Reply):
    id = s.IntegerField()
    kind = s.CharField()
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

    @staticmethod
    def kind_of(row: AccessRule) -> str:
        return as_value(row).kind.value


class Explained(Reply):
    principal = s.CharField()
    groups = Texts(source="who.groups")
    is_active = s.BooleanField(source="who.is_active")
    is_admin = s.BooleanField(source="who.is_admin")
    on = s.CharField(source="found.on")
    privileges = Right(many=True, source="found.privileges")
    columns = Texts(
        source="found.columns",
        allow_null=True,
        help_text="the only ones that exist for the principal; null for all",
    )
    column_grants = Via(many=True, source="found.column_grants")
    filters = Rule(many=True, source="found.filters")
    masks = Rule(many=True, source="found.masks")

    @staticmethod
    def groups_of(row: Body) -> list[str]:
        return sorted(row["who"].groups)

    @staticmethod
    def on_of(row: Body) -> str:
        return str(row["found"].on)


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
    facts = s.DictField()

    @staticmethod
    def facts_of(row: Any) -> Body:
        return without_origins(row.facts)
