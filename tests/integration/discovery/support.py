"""A source database that a datasource points to, and jobs driven by hand."""

from __future__ import annotations

import dataclasses
import uuid
from dataclasses import dataclass, field
from typing import Any

import psycopg

from catalog.discovery import services
from catalog.discovery.probe import STEPS, Report
from catalog.models import Datasource, Table
from catalog.secrets import encrypt
from catalog.sources.access import SourceAccess, access_for
from catalog.sources.port import DiscoveredTable
from catalog.sources.steps import Step
from core.jobs import pages
from core.models import Job

READER, PASSWORD = "sluice_reader", "reader's p@ss;word"


@dataclass
class Source:
    """One database of the source server and the datasource that points to it."""

    server: Any
    name: str
    row: Datasource | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def run(self, *statements: str) -> None:
        with self.server.connect(self.name) as link:
            for statement in statements:
                link.execute(statement)

    def grant_all(self, *schemas: str) -> None:
        for schema in schemas or ("public",):
            quoted = '"' + schema.replace('"', '""') + '"'
            self.run(
                f"GRANT USAGE ON SCHEMA {quoted} TO {READER}",
                f"GRANT SELECT ON ALL TABLES IN SCHEMA {quoted} TO {READER}",
            )

    def clear(self) -> None:
        with self.link() as link:
            rows = link.execute(
                "SELECT quote_ident(nspname) FROM pg_namespace"
                " WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
            ).fetchall()
            names = ", ".join(name for (name,) in rows)
            link.execute(f"DROP SCHEMA {names} CASCADE")
            link.execute("CREATE SCHEMA public")
            link.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")
            link.execute(f'GRANT CONNECT ON DATABASE "{self.name}" TO PUBLIC')

    def link(self) -> psycopg.Connection:
        return self.server.connect(self.name)

    @property
    def datasource(self) -> Datasource:
        if self.row is None:
            self.row = Datasource.objects.create(
                name=f"s{uuid.uuid4().hex[:8]}",
                kind="postgresql",
                host=self.server.host,
                port=self.server.port,
                database=self.name,
                username=READER,
                secret=encrypt(PASSWORD),
            )
        return self.row

    def access(self, **changes: Any) -> SourceAccess:
        return dataclasses.replace(access_for(self.datasource), **changes)

    def set(self, **changes: Any) -> Datasource:
        for name, value in changes.items():
            setattr(self.datasource, name, value)
        self.datasource.save()
        return self.datasource


def finish(job: Job, *, most: int = 500) -> Job:
    """Advance until the job is finished; the row as it is then."""
    for _ in range(most):
        pages.advance(job.pk)
        job.refresh_from_db()
        if job.is_finished:
            return job
        if job.not_before:
            Job.objects.filter(pk=job.pk).update(not_before=None)
    raise AssertionError(f"still {job} after {most} pieces: {job.reason}")


def discover(datasource: Datasource) -> Job:
    return finish(services.start_discovery(datasource, by="ann"))


def table(source: Source, name: str, database: str = "public") -> Table:
    return Table.objects.get(
        database__datasource=source.datasource, database__name=database, name=name
    )


def table_at_source(
    datasource: Datasource, database: str, name: str
) -> DiscoveredTable | None:
    """One table as the source has it now."""
    with services.reader_for(datasource) as reader:
        return reader.table(database, name)


NAMES = [name for name, _ in STEPS]


def statuses(report: Report) -> list[str]:
    return [step.status for step in report.steps]


def failing(report: Report, name: str) -> Step:
    """The failed step; everything before went, everything after was skipped."""
    step = report.failed
    assert step is not None, statuses(report)
    assert step.name == name, step
    at = NAMES.index(name)
    assert "failed" not in statuses(report)[:at]
    assert set(statuses(report)[at + 1 :]) <= {"skipped"}
    assert step.message
    assert step.hint
    assert step.code
    assert PASSWORD not in str(report.as_json())
    return step
