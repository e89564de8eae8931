"""A wrong mix of versions is refused in one line that says what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from config.toolchain.combination import Combination, java_major, problem

RIGHT = Combination(
    python="3.11.2",
    java="17.0.15",
    javac="17.0.15",
    spark="3.5.7",
    scala="2.12.18",
    hudi_jar="hudi-spark3.5-bundle_2.12-1.2.0.jar",
)


def test_the_pinned_combination_is_right() -> None:
    assert problem(RIGHT) == ""


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
        ({"scala": "2.13.8"}, ["2.13.8", "2.12"]),
        ({"scala": ""}, ["Scala", "none"]),
        ({"hudi_jar": "hudi-spark3.5-bundle_2.13-1.2.0.jar"}, ["2.13", "2.12"]),
        ({"hudi_jar": "hudi-spark3.4-bundle_2.12-1.2.0.jar"}, ["Spark 3.4"]),
        ({"hudi_jar": "hudi-spark3.5-bundle_2.12-1.1.1.jar"}, ["Hudi 1.1.1", "1.2.0"]),
        ({"hudi_jar": "hudi-common-1.2.0.jar"}, ["no Hudi bundle"]),
        ({"hudi_jar": ""}, ["no Hudi bundle"]),
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
