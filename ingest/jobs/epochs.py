"""Reserving epochs of a source. The counter only grows; the lake's seals decide."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from ingest.lake.epochs import last_epoch
from ingest.models import SourceEpoch


def reserve_epochs(datasource_id: int, count: int = 1) -> int:
    """The first of `count` consecutive epochs that nobody else will ever get.

    A database restored from an old backup must not hand out epochs that the lake
    knows already, so the first reservation of a row asks the lake.
    """
    with transaction.atomic(savepoint=False):
        row, is_new = SourceEpoch.objects.select_for_update().get_or_create(
            datasource_id=datasource_id
        )
        if is_new:
            known = last_epoch(settings.SLUICE_LAKE_URI, datasource_id)
            row.next_epoch = max(row.next_epoch, known + 1)
        first = row.next_epoch
        row.next_epoch = first + count
        row.save(update_fields=["next_epoch"])
    return first


def lift_epochs(datasource_id: int, known: int) -> int:
    """The counter goes beyond every epoch that the lake knows of the source, `known`
    among them; the next one that will be handed out."""
    last = max(known, last_epoch(settings.SLUICE_LAKE_URI, datasource_id))
    with transaction.atomic():
        row, _ = SourceEpoch.objects.select_for_update().get_or_create(
            datasource_id=datasource_id
        )
        row.next_epoch = max(row.next_epoch, last + 1)
        row.save(update_fields=["next_epoch"])
    return row.next_epoch
