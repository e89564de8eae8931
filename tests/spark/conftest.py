"""The engine that all tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.small_disk import may_mount
from tests.spark.beginnings import Beginnings
from tests.spark.engine_bench import EngineBench, write_table
from tests.spark.lake_bench import LakeBench

ENGINES = {"bench", "engine"}
collect_ignore = [] if may_mount() else ["test_full_disks.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j leaves the socket of an ended thread to the garbage collector, whose
    warning belongs to no module, so it cannot be let through by name. What asks an
    engine is marked."""
    here = Path(__file__).parent
    mark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
    for item in items:
        if here in item.path.parents:
            item.add_marker(mark)
            if ENGINES & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.engine)


@dataclass(frozen=True)
class Lake:
    """A small lake: two tables for everybody, one to discover, two hidden."""

    root: Path
    hidden: Path

    def place(self, name: str) -> Path:
        hidden = {"vault.secrets", "shop.salaries"}
        database, table = name.split(".")
        return (self.hidden if name in hidden else self.root / database) / table


SYSTEM = "cast(1 as bigint) as _sluice_seq, false as _sluice_deleted"
ORDERS = f"""
select id, concat('item', id % 4) as item, cast(id * 1.5 as decimal(12, 2)) as amount,
  date_add(date'2024-01-01', cast(id % 30 as int)) as day, array(id, id + 1) as tags,
  map('k', id) as attrs, to_json(named_struct('a', id)) as doc, {SYSTEM}
from range(1, 21) t(id)
"""


@pytest.fixture(scope="session")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    root = tmp_path_factory.mktemp("lake_canary_root")
    made = Lake(root, root / "canary_path_7f3a")
    rows = "concat('CANARYROW', id)"
    queries = {
        "shop.orders": ORDERS,
        "shop.customers": f"select id, concat('name', id) as name, {SYSTEM} "
        "from range(1, 6) t(id)",
        "shop.discoverable": f"select id, {rows} as remark, {SYSTEM} "
        "from range(1, 4) t(id)",
        "vault.secrets": f"select id, {rows} as canary_col_pii, {SYSTEM} "
        "from range(1, 4) t(id)",
        "shop.salaries": f"select id, {rows} as canary_col_pay, {SYSTEM} "
        "from range(1, 4) t(id)",
    }
    for name, query in queries.items():
        write_table(spark, made.place(name), query)
    return made


@pytest.fixture(scope="session")
def engine_jars() -> tuple[Path, ...]:
    from config.toolchain.paths import spark_classpath

    return tuple(Path(part) for part in spark_classpath().split(":"))


@pytest.fixture(scope="session")
def bench(
    lake: Lake, engine_jars: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineBench]:
    """A running engine that knows the lake; nobody has any right yet.

    The last file of this folder ends it.
    """
    started = EngineBench(tmp_path_factory.mktemp("engine_home"), engine_jars)
    for name in (
        "shop.orders",
        "shop.customers",
        "shop.discoverable",
        "shop.salaries",
        "vault.secrets",
    ):
        started.table(name, lake.place(name))
    yield started
    started.close()


@pytest.fixture
def lake_bench(spark: Any, source_pg: Any, tmp_path: Path) -> Iterator[LakeBench]:
    """A new source database and a new lake."""
    bench = LakeBench(spark, source_pg.create_database("shop"), tmp_path)
    yield bench
    bench.close()


@pytest.fixture(scope="session")
def beginnings(
    spark: Any, source_pg: Any, tmp_path_factory: pytest.TempPathFactory
) -> Beginnings:
    return Beginnings(spark, source_pg, tmp_path_factory.mktemp("beginnings"))
