"""The column of a sentence: text in the database, a `Sentence` where it was one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from core.sentences import restored, stored

if TYPE_CHECKING:
    _TextField = models.TextField[str, str]
else:
    _TextField = models.TextField


class SentenceField(_TextField):
    """Raw SQL writes `stored(text)` and reads by `restored(text)`."""

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.TextField", args, kwargs

    def from_db_value(self, value: str | None, *_: Any) -> str | None:
        return None if value is None else restored(value)

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return stored(value) if isinstance(value, str) else value
