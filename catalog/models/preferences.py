"""How a user reads pages: the language and the time zone."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Preferences(models.Model):
    """What a user set; "" = as the browser says."""

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

    def __str__(self) -> str:
        return f"{self.user}: {self.language or '-'} {self.timezone or '-'}"
