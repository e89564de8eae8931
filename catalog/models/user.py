"""What belongs to a user: the entry at a provider, preferences, queries, replies."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q


class ExternalIdentity(models.Model):
    """The one entry outside that a user stands for.

    provider      "ldap", or "oidc:" and the issuer
    subject       the entry's immutable id there: a renamed person stays one user
    is_suspended  the provider took the access away; it alone gives it back
    checked_at    when the provider last said that the person may come in
    failed_at     when a check last failed, by a fault of settings or entry
    password_mark  when the password there was set, as the directory writes it; "" =
                   it never said
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="external_identity",
    )
    provider = models.CharField(max_length=300)
    subject = models.CharField(max_length=300)
    is_suspended = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    checked_at = models.DateTimeField()
    failed_at = models.DateTimeField(null=True, blank=True)
    password_mark = models.CharField(max_length=64, default="", blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["provider", "subject"], name="one_user_per_entry"
            )
        ]
        indexes: ClassVar = [models.Index(fields=["provider", "checked_at"])]


class DirectoryGroup(models.Model):
    """Marks a group as a provider's: log-ins change memberships in these only."""

    group = models.OneToOneField(
        Group, on_delete=models.CASCADE, related_name="directory_group"
    )


class FormerUser(models.Model):
    """The name of a user who was deleted. Jobs, results and the audit keep it, so
    nobody else may get it.

    provider, subject  of a user who logged in elsewhere: there the name may change
    """

    name = models.CharField(max_length=150, unique=True)
    provider = models.CharField(max_length=300, blank=True)
    subject = models.CharField(max_length=300, blank=True)
    deleted_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["provider", "subject"], name="former_identities")
        ]


class Invitation(models.Model):
    """A link by which a new user of this name sets a password; only its hash is kept.
    `key_id` is the public part."""

    name = models.CharField(max_length=150, unique=True)
    groups = models.ManyToManyField(Group, related_name="+")
    key_id = models.CharField(max_length=20, unique=True)
    digest = models.CharField(max_length=64)
    issued_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="invitations"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.name


class Preferences(models.Model):
    """How a user reads pages; "" = as the browser says."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="preferences",
    )
    language = models.CharField(max_length=20, blank=True)
    timezone = models.CharField(max_length=60, blank=True)

    class Meta:
        verbose_name_plural = "preferences"


class IdempotencyKey(models.Model):
    """The reply to a POST of a user, so that its repetition changes nothing."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)
    status = models.PositiveIntegerField(null=True, blank=True)
    body = models.JSONField(null=True, blank=True)
    location = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "key"], name="one_reply_per_key")
        ]


class SavedQuery(models.Model):
    """A statement that a user keeps.

    is_shared  every user can read its text; it runs with the rights of the user who
               runs it. Only its owner and administrators change it
    """

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="queries"
    )
    name = models.CharField(max_length=200)
    sql = models.TextField()
    is_shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "saved queries"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["owner", "name"], name="one_saved_query_per_name"
            )
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["name", "id"],
                condition=Q(is_shared=True),
                name="shared_queries",
            )
        ]
        ordering: ClassVar = ["name", "id"]

    def __str__(self) -> str:
        return self.name
