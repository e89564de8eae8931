"""Rows of the readers of sources' logs: which there are, started and stopped by users,
and the waking of the hosts that run them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from catalog.access import audit
from catalog.compiled import AnyRow
from catalog.models import Datasource
from catalog.sources.registry import family_of
from core.errors import InvalidRequest
from core.sentences import COLON, STOP, Sentence, as_sentence, joined
from ingest.models import Pipeline, SourceFollower
from ingest.models.states import DISCOVERED, DRAFT, PROPOSED, RETIRED
from ingest.pipelines.log_tables import name_at_source
from ingest.planning.facts import LOG

# A source that does not answer for so long may be gone for ever.
RELEASE_SECONDS = 60.0
# A reader that is less behind takes what is committed within the second.
READS_ALONG_BYTES = 64 * 1024**2
# The hosts listen to this channel of PostgreSQL.
CHANNEL = "sluice_followers"
_LATER = "delete it in a minute; if its server is gone for ever, too"
# One that is removed is followed until its end is in the stream.
WITHOUT_PLAN = (DRAFT, DISCOVERED, PROPOSED, RETIRED)


def followers_of_sources() -> list[SourceFollower]:
    """One for each source that has tables which its log is read for, with the
    datasource. Rows that are not there yet are made."""
    sources = set(_with_log_tables().values_list("pk", flat=True))
    found = _rows(sources)
    if lacking := sources - {row.datasource_id for row in found}:
        made = [SourceFollower(datasource_id=pk) for pk in sorted(lacking)]
        SourceFollower.objects.bulk_create(made, ignore_conflicts=True)
        found = _rows(sources)
    return found


def abandoned_followers() -> list[SourceFollower]:
    """Of sources whose last log table was removed: what was made there has to go, or
    the source keeps its log for ever."""
    of_source = {"source_table__database__datasource": OuterRef("datasource")}
    tables = Pipeline.objects.filter(capture=LOG, **of_source)
    rows = SourceFollower.objects.filter(
        Exists(tables.filter(state=RETIRED)),
        ~Exists(tables.exclude(state__in=WITHOUT_PLAN)),
    )
    return list(rows.select_related("datasource").order_by("pk"))


def release_before_deletion(source: Datasource) -> None:
    """InvalidRequest `log_not_released` while what was made at the source is being
    dropped there. Where that does not come to an end, what is left is in the audit."""
    row = next((r for r in abandoned_followers() if r.datasource_id == source.pk), None)
    if row is None:
        return
    remedy = drop_statement(source)
    latest = timezone.now() - timedelta(seconds=RELEASE_SECONDS)
    is_failing = row.observed == "failed" and row.observed_at < latest
    if row.written_at < latest or is_failing:
        audit.record("capture.left", on=source.name, statement=remedy)
        return
    held = Sentence("the log of %(name)s is not given back yet", name=source.name)
    raise InvalidRequest(
        joined([held, row.reason], COLON),
        code="log_not_released",
        hint=joined([_LATER, remedy], STOP),
    )


def drop_statement(source: Datasource) -> str:
    """Whoever deletes a source that does not answer has this to do there."""
    if family_of(source.kind) != "postgresql":
        return ""
    name = name_at_source(source.pk)
    return Sentence(
        "What is left there keeps the server's log: SELECT"
        " pg_drop_replication_slot('%(name)s'); DROP PUBLICATION IF EXISTS"
        " %(name)s;",
        name=name,
    )


def is_followed(source: Datasource) -> bool:
    return _with_log_tables().filter(pk=source.pk).exists()


def is_any_log_read() -> bool:
    """Whether some log is to be read, or has to be given back."""
    return _is_any_follower() or _is_any_followed()


# Reading ends with these where the log behind the stream's end is not to be had.
LOST = frozenset({"log_lost", "source_changed", "publication_missing"})


def start_capture(source: Datasource, *, begin_anew: bool = False) -> None:
    """Read its log from where it was stopped; one that waits to be started again after
    a failure is started at once.

    begin_anew  go on with what there is where the log is lost (`LOST`): each of its
                tables needs a resync then. InvalidRequest where nothing is lost
    """
    follower = SourceFollower.objects.filter(datasource=source).first()
    if begin_anew and (follower is None or follower.code not in LOST):
        raise InvalidRequest(
            "nothing of the log of %(name)s is lost, so there is nothing to skip",
            name=source.name,
            code="nothing_lost",
            hint="start it without begin_anew",
        )
    action = "capture.begin_anew" if begin_anew else "capture.start"
    _want(source, SourceFollower.RUNNING, action, begin_anew=begin_anew)


def note_begun(sources: Iterable[int]) -> None:
    """What was decided about the lost logs of these is done."""
    SourceFollower.objects.filter(datasource__in=list(sources), begin_anew=True).update(
        begin_anew=False
    )


def why_not_read(source: Datasource) -> str:
    """Why nobody reads its log now, where that does not end within seconds; "" = it
    is read, or about to be."""
    row = SourceFollower.objects.filter(datasource=source).first()
    if row is None:
        return ""
    if row.desired == SourceFollower.STOPPED:
        return Sentence(
            "waits for the log of %(name)s, whose reading was stopped", name=source.name
        )
    if row.observed in {"failed", "waiting"}:
        return Sentence(
            "waits for the log of %(name)s: %(why)s",
            name=source.name,
            why=as_sentence(row.reason or row.observed),
        )
    return ""


def how_far_behind(source: Datasource) -> str:
    """That its follower is far from where its log ends, with numbers; "" = it reads
    along, or nobody knows."""
    row = SourceFollower.objects.filter(datasource=source).first()
    if row is None or row.log_behind < READS_ALONG_BYTES:
        return ""
    return Sentence(
        "waits for the log of %(name)s: %(megabytes)s MB of it are not read yet, and"
        " %(rate)s rows a second are",
        name=source.name,
        megabytes=f"{row.log_behind / 1e6:.0f}",
        rate=f"{row.rows_per_second:.0f}",
    )


def stop_capture(source: Datasource) -> None:
    """Read its log no more. The source keeps what is not read."""
    _want(source, SourceFollower.STOPPED, "capture.stop")


def wake_followers() -> None:
    """Have the hosts look at their rows as soon as the surrounding transaction has
    committed; else they find a change within two seconds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])


def _want(
    source: Datasource, desired: str, action: str, *, begin_anew: bool = False
) -> None:
    if not is_followed(source):
        raise InvalidRequest(
            "no table of %(name)s is followed by its log",
            name=source.name,
            code="not_followed",
            hint="add tables of it with capture 'log'",
        )
    with transaction.atomic():
        row, _ = SourceFollower.objects.get_or_create(datasource=source)
        rows = SourceFollower.objects.filter(pk=row.pk)
        rows.update(desired=desired, desired_at=Now(), begin_anew=begin_anew)
        Datasource.objects.filter(pk=source.pk).update(is_recorded=False)
        audit.record(action, on=source.name)
        wake_followers()


def _with_log_tables() -> QuerySet[Datasource]:
    tables = Pipeline.objects.filter(
        source_table__database__datasource=OuterRef("pk"), capture=LOG
    )
    return Datasource.objects.filter(Exists(tables.exclude(state__in=WITHOUT_PLAN)))


_is_any_followed = AnyRow(_with_log_tables)
_is_any_follower = AnyRow(SourceFollower.objects.all)


def _rows(sources: set[int]) -> list[SourceFollower]:
    rows = SourceFollower.objects.filter(datasource__in=sources)
    return list(rows.select_related("datasource").order_by("pk"))
