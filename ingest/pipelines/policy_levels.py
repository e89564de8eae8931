"""The level whose settings are changed: a source, one of its databases, a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from catalog.access import audit
from catalog.access.policy import Securable
from catalog.models import Database, Datasource, Table
from catalog.selectors.tables import securable_of
from core.sentences import Sentence
from ingest.models import Pipeline
from ingest.pipelines.policies.policy import Effective, effective
from ingest.pipelines.policies.schedule import next_runs
from ingest.pipelines.policies.store import (
    Policies,
    change_policy,
    change_table_policy,
    given_at,
)
from ingest.pipelines.transitions import require_pipeline

RUNS = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """given  at this level. counts  here, with it. above  what counts without it"""

    title: str
    on: Securable
    source: Datasource
    database: Database | None
    pipeline: Pipeline | None
    given: Mapping[str, Any]
    counts: Effective
    above: Effective

    @property
    def has_syncs(self) -> bool:
        return self.pipeline is None or self.pipeline.capture == "timestamp"

    def runs(self, now: datetime) -> list[datetime]:
        due = self.pipeline.due_at if self.pipeline else None
        found = [due] if due and due > now else []
        after = found[0] if found else now
        more = RUNS - len(found)
        return [*found, *next_runs(self.counts.schedule, after, more)]

    @contextmanager
    def locked(self) -> Iterator[Mapping[str, Any]]:
        """What is given at this level now: nobody else changes it before the end."""
        with transaction.atomic():
            if self.pipeline is not None:
                rows = Pipeline.objects.select_for_update()
                yield rows.get(pk=self.pipeline.pk).policy
                return
            Datasource.objects.select_for_update().get(pk=self.source.pk)
            yield given_at(self.source, self.database)

    def change(self, patch: Any) -> None:
        """While it is `locked`."""
        if self.pipeline is not None:
            change_table_policy(self.pipeline, patch)
        else:
            change_policy(self.source, self.database, patch)
        audit.record("policy.change", on=str(self.on), change=dict(patch))


def of_table(table: Table) -> Settings:
    pipeline = require_pipeline(table)
    database = pipeline.source_table.database
    policies = Policies([database.datasource_id])
    return Settings(
        title=f"lake.{table.database.name}.{table.name}",
        on=securable_of(table),
        source=database.datasource,
        database=database,
        pipeline=pipeline,
        given=pipeline.policy,
        counts=policies.of_pipeline(pipeline),
        above=policies.of_database(database),
    )


def of_source(source: Datasource, database: Database | None) -> Settings:
    policies = Policies([source.pk])
    given = given_at(source, database)
    if database is None:
        counts, above = policies.of_datasource(source), effective([])
        title = Sentence("all tables of %(name)s", name=source.name)
    else:
        counts, above = policies.of_database(database), policies.of_datasource(source)
        name = f"{source.name}.{database.name}"
        title = Sentence("all tables of %(name)s", name=name)
    return Settings(
        title=title,
        on=Securable(source.name, database.name if database else ""),
        source=source,
        database=database,
        pipeline=None,
        given=given,
        counts=counts,
        above=above,
    )
