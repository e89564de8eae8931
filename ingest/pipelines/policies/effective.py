"""What counts for a table, a database or a source: policies read along the chain.

Reads only; `ingest.pipelines.policies.store` changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from django.conf import settings

from catalog.compiled import CompiledValues
from catalog.models import Database, Datasource
from ingest.models import Pipeline, Policy
from ingest.pipelines.policies.policy import OWN, Effective, Level, effective
from ingest.pipelines.policies.schedule import MANUAL

# stands for the id of any datasource
_ANY = -1


class Policies:
    """Policies of some datasources and their databases, read in one statement."""

    def __init__(self, datasource_ids: Iterable[int]) -> None:
        ids = set(datasource_ids)
        rows = _of_one().all(*ids) if len(ids) == 1 else _rows(ids)
        self._given: dict[tuple[int, int | None], Mapping[str, Any]] = {
            (datasource, database): given for datasource, database, given in rows
        }

    def of_pipeline(self, pipeline: Pipeline) -> Effective:
        """`pipeline` with its source table, database and datasource."""
        return self.of_database(pipeline.source_table.database, pipeline.policy)

    def of_database(
        self, database: Database, own: Mapping[str, Any] | None = None
    ) -> Effective:
        """What a table of this database gets, given `own` settings of the table."""
        table = Level(OWN, own or {})
        return effective([table, *self._above(database)], defaults())

    def of_datasource(self, datasource: Datasource) -> Effective:
        return effective([self._of_source(datasource)], defaults())

    def _above(self, database: Database) -> list[Level]:
        source = database.datasource
        given = self._given.get((source.pk, database.pk), {})
        name = f"database {source.name}.{database.name}"
        return [Level(name, given), self._of_source(source)]

    def _of_source(self, source: Datasource) -> Level:
        given = self._given.get((source.pk, None), {})
        return Level(f"datasource {source.name}", given)


def _rows(ids: Iterable[int]) -> Any:
    rows = Policy.objects.filter(datasource__in=ids)
    return rows.values_list("datasource_id", "database_id", "given")


@cache
def _of_one() -> CompiledValues[tuple[Any, ...]]:
    """Each sync asks for those of its source."""
    return CompiledValues(_rows([_ANY]), [_ANY], lambda *row: row)


def defaults() -> dict[str, Any]:
    return {
        "schedule": MANUAL,
        "lag_seconds": settings.SLUICE_CAPTURE_LAG_SECONDS,
    }


def policy_of(pipeline: Pipeline) -> Effective:
    """What counts for this table now; one statement."""
    return Policies([pipeline.source_table.database.datasource_id]).of_pipeline(
        pipeline
    )
