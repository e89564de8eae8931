"""Records of rows in the lake, so that `manage.py rebuild` finds them there when the
metadata database is lost.

Rows say themselves that they are not recorded: a record may be older than its row for
some seconds, never for good. It must not know how rows are rebuilt.
"""

from __future__ import annotations

import logging
import time

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from catalog.compiled import AnyRow
from catalog.models import Datasource, SchemaVersion
from core.errors import SluiceError, StaleState
from ingest.contract.records import SourceRecord, TableRecord
from ingest.lake.records import delete_record, write_record
from ingest.models import Pipeline, Policy, SourceFollower

log = logging.getLogger(__name__)

PAGE = 500
# Of one call: other parts of the beat wait meanwhile.
SECONDS = 1.0


def _sources() -> QuerySet[Datasource]:
    carried = Pipeline.objects.filter(
        lake_table__isnull=False,
        source_table__database__datasource=OuterRef("pk"),
    )
    return Datasource.objects.filter(Exists(carried), is_recorded=False)


def _tables() -> QuerySet[Pipeline]:
    return Pipeline.objects.filter(is_recorded=False, lake_table__isnull=False)


_is_any_source, _is_any_table = AnyRow(_sources), AnyRow(_tables)


def record_changed() -> int:
    """Write what is not recorded, sources first; how many records. What the lake does
    not take now is tried again."""
    if not (_is_any_source() or _is_any_table()):
        return 0
    until, count = time.monotonic() + SECONDS, 0
    wanted = [(_record_source, pk) for pk in _sources().values_list("pk", flat=True)]
    pks = _tables().order_by("pk").values_list("pk", flat=True)[:PAGE]
    wanted += [(_record_table, pk) for pk in pks]
    for record, pk in wanted:
        if time.monotonic() > until:
            break
        try:
            count += record(pk)
        except StaleState as error:
            log.warning("the lake has no record of what changed: %s", error)
        except SluiceError as error:
            log.warning("the lake takes no record of what changed: %s", error)
            break
    return count


def forget_source(source_id: int) -> None:
    delete_record(settings.SLUICE_LAKE_URI, SourceRecord, source_id)


def forget_table(table_id: int) -> None:
    """Its files are gone: nothing writes a record of it any more, and then that is
    deleted, too."""
    with transaction.atomic():
        rows = Pipeline.objects.filter(lake_table=table_id)
        list(rows.select_for_update().values_list("pk"))
        rows.update(is_recorded=True)
    delete_record(settings.SLUICE_LAKE_URI, TableRecord, table_id)


def _record_source(pk: int) -> bool:
    with transaction.atomic():
        rows = Datasource.objects.filter(pk=pk, is_recorded=False)
        row = rows.select_for_update(skip_locked=True).first()
        if row is None:
            return False
        write_record(settings.SLUICE_LAKE_URI, source_record(row))
        rows.update(is_recorded=True)
        return True


def _record_table(pk: int) -> bool:
    with transaction.atomic():
        rows = Pipeline.objects.filter(pk=pk, is_recorded=False)
        related = ("lake_table", "source_table__database")
        locked = rows.select_for_update(of=("self",), skip_locked=True)
        row = locked.select_related(*related).first()
        if row is None or row.lake_table is None:
            return False
        write_record(settings.SLUICE_LAKE_URI, table_record(row))
        Pipeline.objects.filter(pk=pk).update(is_recorded=True)
        return True


def source_record(row: Datasource) -> SourceRecord:
    given = Policy.objects.filter(datasource=row).select_related("database")
    stopped = SourceFollower.objects.filter(datasource=row, desired="STOPPED")
    return SourceRecord(
        source_id=row.pk,
        name=row.name,
        kind=row.kind,
        host=row.host,
        port=row.port,
        database=row.database,
        username=row.username,
        tls=row.tls,
        options=row.options,
        has_password=bool(row.secret) or row.needs_password,
        policies={
            each.database.name if each.database else "": each.given for each in given
        },
        is_log_stopped=stopped.exists(),
    )


def table_record(row: Pipeline) -> TableRecord:
    lake, source = row.lake, row.source_table
    shown = SchemaVersion.objects.filter(table=lake, version=lake.schema_version)
    return TableRecord(
        table_id=lake.pk,
        source_id=source.database.datasource_id,
        source_database=source.database.name,
        source_table=source.name,
        source_fingerprint=source.schema_fingerprint,
        estimated_rows=source.estimated_rows,
        comment=lake.comment,
        plan=row.plan,
        schema_version=lake.schema_version,
        columns=tuple(shown.values_list("columns", flat=True).first() or ()),
        capture=row.capture,
        policy=row.policy,
        drift=row.drift,
        state=row.state,
        status_reason=row.status_reason,
        resume_event=row.resume_event,
        consistency=row.consistency,
        load_name=row.load_name,
        bound=row.bound,
        is_queryable=lake.is_queryable,
        instant=lake.last_commit_instant,
        epoch=lake.last_commit_epoch,
        position=row.position,
    )
