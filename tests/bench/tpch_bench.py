"""TPC-H: the eight tables loaded one after the other and all at once, then the 22
questions through the gateway beside the same Spark over plain Parquet (A B B A) with
equal answers, PostgreSQL's among them. Needs what `make bench` installs.
Alone: `SLUICE_BENCH_TPCH_SF=1 python -m tests.bench.tpch_bench FILE`.
"""

from __future__ import annotations

import decimal
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.bench.tpch import QUERIES, TABLES
from tests.product import Product, manage

SCALE = os.environ.get("SLUICE_BENCH_TPCH_SF", "0.2")
PAIRS = int(os.environ.get("SLUICE_BENCH_PAIRS", "1"))
# one after the other, at once, at once, one after the other; the first warms the JVM
LOADS = (True, True, False, False, True)
_AFTER_LOADS = f"tpch_{len(LOADS) - 1}"


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="sluice-tpch-"))
    target = Path(sys.argv[1])
    figures: dict[str, Any] = {"scale": SCALE}

    def note(found: dict[str, Any]) -> None:
        figures.update(found)
        target.write_text(json.dumps(figures, indent=1))

    try:
        manage(home, "quickstart", "--home", str(home), "--detach")
        product = Product(home=home, connection={})
        product.reload()
        make_sources(product, home / "tpch")
        note(load_all(product))
        note(ask_all(product, home / "tpch"))
    finally:
        manage(home, "quickstart", "--stop", "--home", str(home))
        shutil.rmtree(home, ignore_errors=True)
    return 0


def make_sources(product: Product, root: Path) -> None:
    """The tables as Parquet and, once for each load, as a database."""
    made = root / "made"
    generator = str(Path(sys.executable).with_name("tpchgen-cli"))
    generate = [generator, "csv", "-s", SCALE, f"--output-dir={made}"]
    subprocess.run(generate, check=True, capture_output=True)
    with product.source("postgres") as link:
        link.execute("CREATE DATABASE tpch_0")
    with product.source("tpch_0") as link:
        for name, columns in TABLES.items():
            link.execute(f"CREATE TABLE {name} ({columns})")
            with (made / f"{name}.csv").open("rb") as rows, link.cursor() as cursor:
                copy = f"COPY {name} FROM STDIN (FORMAT csv, HEADER)"
                with cursor.copy(copy) as into:
                    while data := rows.read(1 << 20):
                        into.write(data)
        # without it PostgreSQL walks lineitem once per part in two of the questions
        link.execute("CREATE INDEX ON lineitem (l_partkey, l_suppkey)")
        link.execute("VACUUM ANALYZE")
    with product.source("postgres") as link:
        for number in range(1, len(LOADS)):
            link.execute(f"CREATE DATABASE tpch_{number} TEMPLATE tpch_0")


def load_all(product: Product) -> dict[str, Any]:
    """Seconds of whole loads: a table begins when the one before is done, or all at
    once."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    for number, is_in_turn in enumerate(LOADS):
        name = f"tpch_{number}"
        product.register(name)
        product.discover(name)
        groups = [[t] for t in TABLES] if is_in_turn else [list(TABLES)]
        began = time.monotonic()
        for each in groups:
            _load(product, name, each)
        if number:
            taken[is_in_turn].append(time.monotonic() - began)
    return {
        "load, one after the other, s": [round(each, 1) for each in taken[True]],
        "load, all at once, s": [round(each, 1) for each in taken[False]],
        "load, all at once : one after the other": round(
            sum(taken[False]) / sum(taken[True]), 2
        ),
    }


def _load(product: Product, source: str, tables: list[str]) -> None:
    include = [f"public.{table}" for table in tables]
    body = {"datasource": source, "include": include, "capture": "snapshot"}
    product.api.post("/onboardings", {**body, "approve": True})
    for table in tables:
        product.api.wait_live(f"lake.{source}.{table}")


@dataclass
class Asked:
    """One question: its answers, and the seconds that they took."""

    lake: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    is_equal: bool = False

    @property
    def ratio(self) -> float:
        return statistics.median(self.lake) / statistics.median(self.plain)


def ask_all(product: Product, root: Path) -> dict[str, Any]:
    """Each question of all three: answers first, which warms both, then by the clock."""
    with product.hive(database=_AFTER_LOADS) as hive:
        lake = hive.cursor()

        def from_lake(text: str) -> Any:
            lake.execute(text)
            return lake.fetchall()

        spark = plain_spark(product, root)

        def from_plain(text: str) -> Any:
            return spark.sql(text).collect()

        found = {number: Asked() for number in QUERIES}
        with product.source("tpch_0") as link:
            for number, text in QUERIES.items():
                answers = [from_lake(text), from_plain(text)]
                answers.append(link.execute(text).fetchall())
                first, *others = answers
                found[number].is_equal = all(_are_equal(first, o) for o in others)
        # the engine and the other Spark are as warm as each other from the second on
        for pair in range(1 + PAIRS):
            for number, text in QUERIES.items():
                one = found[number]
                for ask, times in (
                    (from_lake, one.lake),
                    (from_plain, one.plain),
                    (from_plain, one.plain),
                    (from_lake, one.lake),
                ):
                    began = time.monotonic()
                    ask(text)
                    if pair:
                        times.append(time.monotonic() - began)
        spark.stop()
    return figures_of(found)


def figures_of(found: dict[int, Asked]) -> dict[str, Any]:
    ours = sum(statistics.median(one.lake) for one in found.values())
    plain = sum(statistics.median(one.plain) for one in found.values())
    ratios = {f"Q{number}": round(one.ratio, 2) for number, one in found.items()}
    return {
        "equal answers": sum(one.is_equal for one in found.values()),
        "different": [number for number, one in found.items() if not one.is_equal],
        "lake, s": round(ours, 1),
        "plain Parquet, s": round(plain, 1),
        "lake : plain Parquet": round(ours / plain, 2),
        "slowest ratio": max(ratios.values()),
        "ratios": ratios,
    }


def plain_spark(product: Product, root: Path) -> Any:
    """A session with the heap and the settings of the engine, over Parquet that Spark
    wrote of the same rows."""
    from pyspark.sql import SparkSession

    from gateway.engines.spark_settings import spark_settings

    settings = spark_settings(
        root / "spark", cores=os.cpu_count() or 2, max_result="256m"
    )
    (root / "spark" / "tmp").mkdir(parents=True)
    builder = SparkSession.builder.config("spark.driver.memory", _heap(product))
    for key, value in settings.items():
        if "sluice" not in value and not key.startswith(
            ("spark.serializer", "spark.kryo", "hoodie")
        ):
            builder = builder.config(key, value)
    spark = builder.config(
        "spark.driver.extraJavaOptions",
        "-XX:+UseSerialGC -Xss4m -Duser.timezone=UTC",
    ).getOrCreate()
    for name, columns in TABLES.items():
        path = str(root / "parquet" / name)
        made = spark.read.csv(
            str(root / "made" / f"{name}.csv"), header=True, schema=_schema(columns)
        )
        made.write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView(name)
    return spark


def _schema(columns: str) -> str:
    """The columns for Spark, without the key."""
    own = columns.split(", PRIMARY KEY")[0].replace(" PRIMARY KEY", "")
    return own.replace("numeric", "decimal").replace(" text", " string")


def _heap(product: Product) -> str:
    """What the engine's JVM was started with, as `900m`."""
    (engine,) = product.connection["pids"]["engines"]
    leader = psutil.Process(engine)
    for one in [leader, *leader.children(recursive=True)]:
        for option in one.cmdline():
            if option.startswith("-Xmx"):
                return option.removeprefix("-Xmx")
    raise AssertionError("the engine's JVM has no -Xmx")


def _are_equal(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(
        _is_equal(value, like)
        for row, others in zip(one, other, strict=True)
        for value, like in zip(row, others, strict=True)
    )


def _is_equal(value: Any, like: Any) -> bool:
    """Averages and quotients of decimals have other numbers of digits in each."""
    numbers = (int, float, decimal.Decimal)
    if isinstance(value, numbers) and isinstance(like, numbers):
        return math.isclose(value, like, rel_tol=1e-4)
    return str(value) == str(like)


if __name__ == "__main__":
    sys.exit(main())
