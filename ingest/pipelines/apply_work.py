"""What sessions that apply logs shall work on: rows in, values out.

A table whose load is in the lake is applied until somebody stops it: what waits for it
in its stream is applied even while nobody reads its source's log. Must not know leases,
nor how sessions are run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import QuerySet

from catalog.compiled import AnyRow
from catalog.models import Datasource
from ingest.contract.applying import ApplyTable
from ingest.contract.members import value_of
from ingest.contract.table import FenceSpec, SourceSpec, TableSpec
from ingest.contract.written import Totals
from ingest.jobs.kinds import source_spec, spec_by_plan
from ingest.models import Pipeline
from ingest.models.states import LOADED
from ingest.pipelines import compaction_plans
from ingest.pipelines.log_tables import stream_of
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.store import Policies
from ingest.pipelines.row_versions import MadeOfRows, RowVersions, row_versions
from ingest.planning.facts import LOG

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
        return ApplyTable(
            table=self.table,
            fence=fence,
            freshness=self.policy.freshness,
            compact_after=self.policy.compact_after,
            budget=compaction_plans.budget(self.policy, self.credit, self.counted),
        )


@dataclass(frozen=True, slots=True)
class WantedStream:
    """tables: by the id of the lake table."""

    source: SourceSpec
    tables: Mapping[int, Wanted]


@dataclass(slots=True)
class WantedTables:
    """Read every other second: rows that were not written since are not read again,
    and a plan only when it is another one."""

    _wanted: MadeOfRows[Wanted] = field(default_factory=MadeOfRows)
    _policies: Mapping[Any, Any] = field(default_factory=dict)
    _health: Mapping[int, str] = field(default_factory=dict)

    def read(self) -> dict[str, WantedStream]:
        """By stream."""
        rows = row_versions(LOADED)
        sources = Datasource.objects.in_bulk({row.datasource_id for row in rows})
        self._renew(rows, Policies(sources))
        of_sources: dict[int, dict[int, Wanted]] = {pk: {} for pk in sources}
        for row in rows:
            if one := self._wanted.get(row.table_id):
                of_sources[row.datasource_id][row.table_id] = one
        return {
            stream_of(pk): WantedStream(source_spec(source), of_sources[pk])
            for pk, source in sources.items()
        }

    def _renew(self, rows: list[RowVersions], policies: Policies) -> None:
        is_other = policies.given != self._policies
        written, again = self._wanted.compare(rows, all_anew=is_other)
        for pk in again:
            self._wanted.drop(pk)
        whole = _whole(again, policies)
        # rows of tables at rest get a newer moment now and then: what was written to
        # the lake is another number only where their health is
        health = {row.table_id: row.health for row in rows}
        other = [pk for pk in written if self._health.get(pk) != health[pk]]
        for pk, (credit, counted) in _counted([*{*again, *other}]).items():
            if one := whole.get(pk) or self._wanted.get(pk):
                self._wanted.put(pk, replace(one, credit=credit, counted=counted))
        self._policies, self._health = policies.given, health


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


def _whole(table_ids: list[int], policies: Policies) -> dict[int, Wanted]:
    if not table_ids:
        return {}
    rows = _applied().filter(lake_table__in=table_ids)
    related = ("lake_table__database", "source_table__database__datasource")
    found = {}
    for pipeline in rows.select_related(*related):
        lake = pipeline.lake
        try:
            found[lake.pk] = Wanted(
                spec_by_plan(pipeline), policies.of_pipeline(pipeline)
            )
        except Exception:
            # of one table: the others are applied all the same
            log.exception("%s cannot be given to a session", lake)
    return found
