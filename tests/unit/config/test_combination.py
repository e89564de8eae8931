"""A wrong mix of versions is refused in one line that says what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from config.toolchain.combination import HUDI, SPARK, Combination, java_major, problem
from config.toolchain.paths import pinned_jars, pyspark_home

RIGHT = Combination(
    python="3.11.2",
    java="17.0.15",
    javac="17.0.15",
    spark="3.5.7",
)


def test_the_pinned_combination_is_right() -> None:
    assert problem(RIGHT) == ""
    (bundle,) = [jar for jar in pinned_jars() if "hudi" in jar.artifact]
    spark = SPARK.rpartition(".")[0]
    (scala,) = (pyspark_home() / "jars").glob("scala-library-*")
    assert scala.name.startswith("scala-library-2.12.")
    assert bundle.artifact == f"hudi-spark{spark}-bundle_2.12"
    assert bundle.version == HUDI


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"python": "3.12.1"}, ["Python 3.12.1", "apt-get install python3.11"]),
        ({"python": "3.1.1"}, ["Python 3.1.1"]),
        ({"java": ""}, ["no Java", "apt-get install openjdk-17"]),
        ({"java": "1.8.0_392"}, ["Java 1.8.0_392", "Java 17"]),
        ({"java": "11.0.20"}, ["Java 11.0.20", "Java 17"]),
        ({"java": "21.0.1"}, ["Java 21.0.1", "JAVA_HOME"]),
        ({"javac": ""}, ["without compiler", "openjdk-17-jdk"]),
        ({"javac": "21.0.1"}, ["javac 21.0.1"]),
        ({"spark": ""}, ["Spark", "missing", "make setup"]),
        ({"spark": "3.5.6"}, ["Spark 3.5.6", "3.5.7"]),
        ({"spark": "4.0.0"}, ["Spark 4.0.0"]),
    ],
)
def test_a_wrong_one_is_named(change: dict[str, str], words: list[str]) -> None:
    line = problem(replace(RIGHT, **change))
    assert "\n" not in line
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("text", "major"),
    [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("17-ea", 17), ("", 0), ("x", 0)],
)
def test_java_major(text: str, major: int) -> None:
    assert java_major(text) == major
