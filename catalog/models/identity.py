"""Users and groups whose truth is a directory or an identity provider."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models


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

    def __str__(self) -> str:
        return f"{self.subject} at {self.provider}"


class DirectoryGroup(models.Model):
    """Marks a group as a provider's: log-ins change memberships in these only."""

    group = models.OneToOneField(
        Group, on_delete=models.CASCADE, related_name="directory_group"
    )

    def __str__(self) -> str:
        return self.group.name
