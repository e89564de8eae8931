"""Source tables that are loaded already: one load for each shape, and then copies.

Most runs begin with a loaded table, and a load takes about as long as what they are for.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace

from ingest.contract.table import TableSpec
from ingest.sources.fingerprint import SourceFingerprint, to_data
from ingest.sources.port import SourceAccess
from ingest.sources.registry import open_source
from tests.hostile import acts
from tests.spark.lake_bench import LakeBench, assert_done


@dataclass(frozen=True, slots=True)
class Loaded:
    """table: of the source and of the lake. low: where the first sync begins."""

    table: TableSpec
    low: str


class Beginnings:
    """Those of one source and its lake."""

    def __init__(self, bench: LakeBench) -> None:
        self._bench = bench
        self._kept: dict[str, Loaded] = {}

    def create(self, name: str, shape: str, *, like: str = "") -> None:
        """A source table of this shape with its rows, or with those of `like`."""
        kind = self._bench.source.kind
        for statement in acts.CREATE[kind, shape]:
            self._bench.sql(statement.format(t=name))
        rows, statistics = acts.FILL[kind]
        if like:
            rows = f"INSERT INTO {{t}} SELECT * FROM {like}"
        for statement in (rows, statistics):
            self._bench.sql(statement.format(t=name))

    def loaded(self, name: str, shape: str) -> Loaded:
        """A new source table and its lake table, as if a job had just loaded it."""
        kept = self._kept.get(shape) or self._load(shape)
        self.create(name, shape, like=kept.table.source_table)
        # its files know the lake table by the name under which they were written
        table = replace(self._bench.table(name, cursor="at"), name=kept.table.name)
        shutil.copytree(kept.table.path, table.path)
        return replace(kept, table=table)

    def _load(self, shape: str) -> Loaded:
        name = f"loaded_{shape}"
        self.create(name, shape)
        table = self._bench.table(name, cursor="at")
        report = assert_done(self._bench.load(table))
        self._kept[shape] = Loaded(table, str(report.facts["bound"]))
        return self._kept[shape]


def signs_of(bench: LakeBench, table: TableSpec) -> dict[str, object]:
    """What a job that loads the table now would remember of its source."""
    access = SourceAccess(bench.source, bench.password, "sluice:test")
    with open_source(access) as source:
        return to_data(SourceFingerprint(server=source.source_fingerprint(table)))
