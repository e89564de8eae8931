"""A schedule as its reader's language describes it."""

from __future__ import annotations

from django.utils.translation import get_language

from core.translation import translated
from ingest.pipelines.policies.schedule import Schedule, in_words, translatable


def schedule_words(schedule: Schedule | None) -> str:
    """In English as REST says it."""
    if (get_language() or "en").startswith("en"):
        return in_words(schedule)
    return translated(translatable(schedule))
