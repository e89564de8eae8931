"""How the tables synced from one source into one lake database did, by time."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from catalog.models import Database, Datasource


class Rollup(models.Model):
    """A minute, or an hour as the sum of its minutes. `ingest.scheduler.rollups` keeps
    some hundred of a source and database.

    seconds      how long the slot is, from `at` on
    rows         synced in it; applied: by log capture, since ever
    succeeded, failed   jobs that ended in it
    tables, late at its end: all, and those that lag more than they may
    lag_max, lag_p95    seconds; of an hour: of its worst minute. None = none follows
    bytes        of the lake's files at its end
    """

    MINUTE, HOUR = 60, 3600

    datasource = models.ForeignKey(Datasource, models.CASCADE, related_name="+")
    database = models.ForeignKey(Database, models.CASCADE, related_name="+")
    seconds = models.PositiveIntegerField()
    at = models.DateTimeField()
    rows = models.BigIntegerField(default=0)
    applied = models.BigIntegerField(default=0)
    succeeded = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    tables = models.PositiveIntegerField(default=0)
    late = models.PositiveIntegerField(default=0)
    lag_max = models.FloatField(null=True, blank=True)
    lag_p95 = models.FloatField(null=True, blank=True)
    bytes = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["seconds", "at", "datasource", "database"],
                name="one_rollup_per_slot",
            )
        ]
