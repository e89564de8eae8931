"""What sessions that apply logs shall work on: rows in, values out.

A table whose load is in the lake is applied until somebody stops it: what waits for it
in its stream is applied even while nobody reads its source's log. Must not know leases,
nor how sessions are run.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import QuerySet

from catalog.compiled import AnyRow
from catalog.models import Datasource
from ingest.contract.applying import ApplyTable
from ingest.contract.job import CompactionBudget
from ingest.contract.members import value_of
from ingest.contract.table import FenceSpec, SourceSpec, TableSpec
from ingest.contract.written import Totals
from ingest.jobs.kinds import source_spec, table_spec
from ingest.models import Pipeline, Policy
from ingest.models.states import LOADED
from ingest.pipelines.log_tables import stream_of
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.store import Policies
from ingest.pipelines.row_versions import RowVersions, row_versions, signatures
from ingest.planning.facts import LOG
from ingest.planning.plan import plan_from_json

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A table to apply, but for its fence. credit, counted: as in
    `CompactionBudget`."""

    table: TableSpec
    policy: Effective
    credit: int = 0
    counted: Totals = field(default_factory=Totals)

    def under(self, fence: FenceSpec) -> ApplyTable:
        keeping = self.policy.keeping
        return ApplyTable(
            table=self.table,
            fence=fence,
            freshness=self.policy.freshness,
            compact_after=keeping.compact_after,
            budget=CompactionBudget(
                amplification=keeping.max_write_amplification,
                credit=self.credit,
                counted=self.counted,
                log_age=keeping.log_age_seconds,
            ),
        )


@dataclass(frozen=True, slots=True)
class WantedStream:
    """tables: by the id of the lake table."""

    source: SourceSpec
    tables: Mapping[int, Wanted]


@dataclass(frozen=True, slots=True)
class _Known:
    """What was made of a table's rows at these versions."""

    versions: RowVersions
    signature: str
    wanted: Wanted


@dataclass(slots=True)
class WantedTables:
    """Read every other second: rows that were not written since are not read again,
    and a plan only when it is another one."""

    _known: dict[int, _Known] = field(default_factory=dict)
    _policies: list[Any] = field(default_factory=list)

    def read(self) -> dict[str, WantedStream]:
        """By stream."""
        rows = row_versions(LOADED)
        sources = Datasource.objects.in_bulk({row.datasource_id for row in rows})
        self._forget(rows, sources)
        known = {pk: one.versions for pk, one in self._known.items()}
        self._read_again([r for r in rows if known.get(r.table_id) != r], sources)
        of_sources: dict[int, dict[int, Wanted]] = {pk: {} for pk in sources}
        for row in rows:
            if one := self._known.get(row.table_id):
                of_sources[row.datasource_id][row.table_id] = one.wanted
        return {
            stream_of(pk): WantedStream(source_spec(source), of_sources[pk])
            for pk, source in sources.items()
        }

    def _read_again(self, written: list[RowVersions], sources: Collection[int]) -> None:
        """Those whose rows were written; what cannot be described is left out."""
        versions = {one.table_id: one for one in written}
        before = {pk: self._known.pop(pk, None) for pk in versions}
        found = signatures(versions)
        same = {
            pk: old.wanted
            for pk, signature in found.items()
            if (old := before[pk]) and old.signature == signature
        }
        all_of_them = same | _whole([pk for pk in found if pk not in same], sources)
        for pk, (credit, counted) in _counted(list(all_of_them)).items():
            now = replace(all_of_them[pk], credit=credit, counted=counted)
            self._known[pk] = _Known(versions[pk], found[pk], now)

    def _forget(self, rows: list[RowVersions], sources: Collection[int]) -> None:
        """What is another one now, or not wanted any more."""
        given = Policy.objects.filter(datasource__in=sources).order_by("pk")
        policies = list(given.values_list("datasource_id", "database_id", "given"))
        if policies != self._policies:
            self._known.clear()
            self._policies = policies
        wanted = {row.table_id for row in rows}
        for pk in self._known.keys() - wanted:
            del self._known[pk]


def _applied() -> QuerySet[Pipeline]:
    return Pipeline.objects.filter(
        capture=LOG, state__in=sorted(LOADED), lake_table__isnull=False
    )


is_any_applied = AnyRow(_applied)


def _counted(table_ids: list[int]) -> dict[int, tuple[int, Totals]]:
    """As in `CompactionBudget`: credit and sums."""
    if not table_ids:
        return {}
    written = "lake_table__health__facts__written"
    values = _applied().values_list(
        "lake_table_id", f"{written}__credit", f"{written}__counted"
    )
    return {
        table: (int(credit or 0), value_of(Totals, sums or {}))
        for table, credit, sums in values.filter(lake_table__in=table_ids)
    }


def _whole(table_ids: list[int], sources: Collection[int]) -> dict[int, Wanted]:
    if not table_ids:
        return {}
    policies = Policies(sources)
    rows = _applied().filter(lake_table__in=table_ids)
    related = ("lake_table__database", "source_table__database__datasource")
    found = {}
    for pipeline in rows.select_related(*related):
        lake = pipeline.lake_table
        assert lake is not None
        try:
            found[lake.pk] = Wanted(spec_of(pipeline), policies.of_pipeline(pipeline))
        except Exception:
            # of one table: the others are applied all the same
            log.exception("%s cannot be given to a session", lake)
    return found


def spec_of(pipeline: Pipeline) -> TableSpec:
    """What a session gets of a table that is in the lake, by its plan of now."""
    assert pipeline.lake_table is not None
    plan = plan_from_json(pipeline.plan)
    return table_spec(plan, pipeline.lake_table, pipeline.source_table)
