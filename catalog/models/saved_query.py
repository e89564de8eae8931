"""Statements that people keep, for themselves or for everybody."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q


class SavedQuery(models.Model):
    """is_shared: everybody who may log in can read its text; it runs with the rights
    of whom runs it. Only its owner and administrators change it."""

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
