"""A world whose tables are live, made once for the tests of a file; each gets a copy.

To make one costs as much as what most tests show of it: 200 statements, each built, sent,
planned and read. A copy is its rows, the files of its lake, and what its host remembers.
"""

from __future__ import annotations

import copy
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection

from ingest.hosting import SecretBroker
from tests.doubles.launcher import FakeLauncher
from tests.emptied import KEPT

if TYPE_CHECKING:
    from tests.integration.ingest.world import World

SOURCE = "catalog_datasource"
# Of each table its rows, as COPY writes them and in that order.
Rows = dict[str, list[bytes]]


@dataclass(frozen=True, slots=True)
class Beginning:
    """uri: where its lake was and is again. lake: a copy of that, which nobody writes."""

    world: World
    rows: Rows
    uri: str
    lake: Path

    @classmethod
    def of(cls, world: World, rows: Rows) -> Beginning:
        uri = str(settings.SLUICE_LAKE_URI)
        lake = Path(f"{uri}-of-{world.source.pk}")
        shutil.copytree(uri, lake)
        return cls(_copy(world), rows, uri, lake)

    def take_place_of(self, world: World) -> None:
        """world: one in which nothing has happened yet."""
        with connection.cursor() as cursor:
            # no key is looked at, no trigger fired
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(f"DELETE FROM {SOURCE} WHERE id = %s", [world.source.pk])
            for table, rows in self.rows.items():
                with cursor.cursor.copy(f"COPY {table} FROM STDIN") as into:
                    into.write(b"".join(rows))
            cursor.execute("SET LOCAL session_replication_role = origin")
        settings.SLUICE_LAKE_URI = self.uri
        shutil.rmtree(self.uri, ignore_errors=True)
        shutil.copytree(self.lake, self.uri)
        world.__dict__.update(_copy(self.world).__dict__)


# By what was onboarded.
_made: dict[str, Beginning] = {}


def begin_live(world: World, *names: str, **more: Any) -> None:
    """Onboard tables and load them, or begin where another test of the file did."""
    key = repr((names, sorted(more.items())))
    may_copy = _is_untouched(world)
    if may_copy and key in _made:
        _made[key].take_place_of(world)
        return
    before = _rows() if may_copy else {}
    world.onboard(*names, **more)
    world.until_live(*names)
    if may_copy and (rows := _rows_since(before, world.source.pk)):
        _made[key] = Beginning.of(world, rows)


def forget() -> None:
    _made.clear()


def _is_untouched(world: World) -> bool:
    """Nor is one copied whose rows are committed: they do not go with the test."""
    is_new = world.host.driver is None and world.launcher == FakeLauncher()
    return is_new and connection.in_atomic_block


def _copy(world: World) -> World:
    """The clock goes on for all of them."""
    host = world.host
    fresh = {id(host._is_woken): threading.Event(), id(host._broker): SecretBroker()}
    return copy.deepcopy(world, fresh)


def _rows_since(before: Rows, source: int) -> Rows:
    """What was added, and the source; none where rows of others were changed, which a
    test that gets a copy has not."""
    after = _rows()
    if any(
        set(before[table]) - set(after[table]) for table in before if table != SOURCE
    ):
        return {}
    own = f"{source}\t".encode()
    added: Rows = {}
    for table, rows in after.items():
        old = set(before.get(table, ()))
        is_own = table == SOURCE
        found = [r for r in rows if r not in old or (is_own and r.startswith(own))]
        if found:
            added[table] = found
    return added


def _rows() -> Rows:
    """Of all tables but those that `migrate` filled."""
    tables = connection.introspection.table_names()
    found: Rows = {}
    with connection.cursor() as cursor:
        for table in set(tables) - set(KEPT):
            with cursor.cursor.copy(f"COPY {table} TO STDOUT") as out:
                found[table] = b"".join(out).splitlines(keepends=True)
    return found
