"""A schedule as its reader's language describes it."""

from __future__ import annotations

from django.utils.translation import get_language, gettext

from frontend.templatetags.figures import duration
from ingest.pipelines.policies.schedule import Cron, Every, Schedule, in_words


def schedule_words(schedule: Schedule | None) -> str:
    """In English as REST says it. Other languages show the expression of cron, for
    what explains it knows English only."""
    if (get_language() or "en").startswith("en"):
        return in_words(schedule)
    if isinstance(schedule, Every):
        return gettext("Every %(time)s") % {"time": duration(schedule.seconds)}
    if isinstance(schedule, Cron):
        said = {"cron": schedule.expression, "timezone": schedule.timezone}
        return gettext("By cron %(cron)s, %(timezone)s time") % said
    return gettext("On request")
