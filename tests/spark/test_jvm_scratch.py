"""An engine's JVM unpacks its libraries at home, so its end takes them along."""

from __future__ import annotations

from pathlib import Path

from tests.spark.engine_bench import EngineBench
from tests.spark.left_behind import unpacked_libraries


def test_an_engine_unpacks_at_home(bench: EngineBench) -> None:
    bench.policy("eve", select=["shop.*"])
    client = bench.connect("eve")
    try:
        # a shuffle and a Parquet file: the codecs of both are native
        client.rows("select id % 3, count(*) from shop.orders group by 1")
    finally:
        client.close()
    home = Path(bench.log).parents[1]
    libraries = unpacked_libraries(bench.java_pid)
    assert libraries, "nothing native was loaded: this test sees nothing"
    assert {path.relative_to(home).parts[0] for path in libraries} == {"engines"}
