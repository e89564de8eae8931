"""Grants, tokens, the policy version and the audit trail.

Users and groups are Django's own (`is_superuser` = administrator).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import MD5, Cast

from catalog.names import join_name

# What people decided on who may do what, and on how tables are kept.
DECISIONS = (
    "grant.create", "grant.delete", "rule.create", "rule.update", "rule.delete",
    "policy.change",
)  # fmt: skip


class Grant(models.Model):
    """A privilege of a principal on a securable, named by its parts.

    `privilege` holds the name of a privilege or of a role; no name is both.

    Names, not foreign keys: policy is about names, and a grant on a database
    covers tables that do not exist yet. "" = the level above. `columns`: of `select`
    on a lake table, only these; empty for all.
    """

    principal_kind = models.CharField(max_length=10)
    principal_name = models.CharField(max_length=150)
    privilege = models.CharField(max_length=20)
    datasource = models.CharField(max_length=100)
    database = models.CharField(max_length=200, blank=True)
    table = models.CharField(max_length=300, blank=True)
    columns = models.JSONField(default=list, blank=True)
    granted_by = models.CharField(max_length=150, blank=True)
    granted_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                "principal_kind",
                "principal_name",
                "privilege",
                "datasource",
                "database",
                "table",
                MD5(Cast("columns", models.TextField())),  # an index takes no long ones
                name="one_grant_of_a_kind",
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["principal_kind", "principal_name"]),
            models.Index(fields=["datasource", "database", "table"]),
        ]

    def __str__(self) -> str:
        columns = f" ({', '.join(self.columns)})" if self.columns else ""
        return f"{self.privilege} on {self.on}{columns} to {self.principal}"

    @property
    def principal(self) -> str:
        return f"{self.principal_kind}:{self.principal_name}"

    @property
    def on(self) -> str:
        return join_name(self.datasource, self.database, self.table)


class AccessRule(models.Model):
    """What takes rows or values of a lake table from those whom grants let read it.

    `column`: of a mask; "" of a row filter. `applies_to` and `excepted` hold
    "everyone", "user:ann" or "group:bi".
    """

    datasource = models.CharField(max_length=100)
    database = models.CharField(max_length=200)
    table = models.CharField(max_length=300)
    column = models.CharField(max_length=300, blank=True)
    applies_to = models.JSONField(default=list)
    excepted = models.JSONField(default=list, blank=True)
    mask = models.CharField(max_length=20, blank=True)
    expression = models.TextField(blank=True)
    created_by = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["datasource", "database", "table"])]

    def __str__(self) -> str:
        what = f"mask {self.mask}" if self.column else "row filter"
        return f"{what} on {self.on}"

    @property
    def on(self) -> str:
        return join_name(self.datasource, self.database, self.table, self.column)


class ApiToken(models.Model):
    """A bearer token: only its hash is kept. `key_id` is the public part."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.CharField(max_length=100)
    key_id = models.CharField(max_length=20, unique=True)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"slt_{self.key_id}…"

    @property
    def ends_at(self) -> datetime | None:
        """When it expires; SLUICE_TOKEN_DAYS holds for older ones, too."""
        most = settings.SLUICE_TOKEN_DAYS
        longest = [self.created_at + timedelta(days=most)] if most else []
        return min([each for each in (self.expires_at, *longest) if each], default=None)


class PolicyVersion(models.Model):
    """One row (id 1): counts every change of users, groups and grants."""

    version = models.BigIntegerField(default=1)


class LoginFailure(models.Model):
    """Recent failed logins of one name from one address; a bounded table."""

    username = models.CharField(max_length=150)
    address = models.CharField(max_length=64)
    failures = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["username", "address"], name="one_failure_count_per_door"
            )
        ]
        indexes: ClassVar = [models.Index(fields=["last_at"])]


class AuditEntry(models.Model):
    """Who did what to which object through which door; append-only."""

    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=60)
    object = models.CharField(max_length=600, blank=True)
    door = models.CharField(max_length=20)
    is_allowed = models.BooleanField(default=True)
    address = models.CharField(max_length=64, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    facts = models.JSONField(default=dict, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["-at", "id"]),
            models.Index(fields=["actor", "-at"]),
            # few among all that was done
            models.Index(
                fields=["-at"], condition=Q(action__in=DECISIONS), name="decisions"
            ),
        ]
