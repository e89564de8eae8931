"""Parts of the engine's JVM side, in a JVM without Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from config.toolchain.javac import BRIEF
from config.toolchain.paths import pyspark_home, spark_classpath

SOURCE = Path(__file__).with_name("EngineUnits.java")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    built = tmp_path_factory.mktemp("engine_units")
    path = f"{built}:{spark_classpath()}:{pyspark_home() / 'jars' / '*'}"
    subprocess.run(
        ["javac", *BRIEF, "-nowarn", "-cp", path, "-d", str(built), str(SOURCE)],
        check=True,
        timeout=120,
    )
    done = subprocess.run(
        ["java", "-cp", path, "io.sluice.engine.EngineUnits"],
        check=True,
        timeout=120,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = (line.rpartition(": ") for line in done.stdout.splitlines())
    return {what: answer == "true" for what, _, answer in said}


@pytest.mark.parametrize(
    "what",
    [
        "an error of the JVM",
        "its wrapper",
        "a class that met it, first",
        "a class that met it, later",
        "a class that met the stack's end, later",
        "a class that met a full code cache, later",
    ],
)
def test_a_jvm_that_is_not_whole_is_known(what: str, found: dict[str, bool]) -> None:
    assert found[what]


@pytest.mark.parametrize(
    "what",
    [
        "a class that met the stack's end, first",
        "a class that met another error, later",
        "the end of the stack",
        "the end of memory",
        "a text of a user",
        "causes in a circle",
        "nothing",
    ],
)
def test_what_ends_with_its_statement_leaves_the_engine(
    what: str, found: dict[str, bool]
) -> None:
    assert not found[what]


def test_a_failing_check_is_made_again(found: dict[str, bool]) -> None:
    assert found["a failing check goes on"]


def test_nobody_else_is_ended_while_the_memory_of_one_goes(
    found: dict[str, bool],
) -> None:
    waits = "an end is waited for while"
    assert found[f"{waits} its tasks run"]
    assert not found[f"{waits} only tasks of others run"]
    assert not found[f"{waits} its tasks run after a minute"]


def test_memory_is_charged_to_the_tasks_that_hold_it(found: dict[str, bool]) -> None:
    assert found["tasks that go on count"]
    assert found["results of tasks that are done count"]
    assert not found["a task is charged with what its thread took before"]
    assert not found["a task that is done holds"]
    assert not found["idle threads hold"]
    assert not found["a closed statement is kept"]


def test_a_statement_that_took_little_is_never_ended_for_memory(
    found: dict[str, bool],
) -> None:
    assert found["the largest share ends"]
    assert not found["a small share ends"]


def test_what_sorts_hold_does_not_make_memory_short(found: dict[str, bool]) -> None:
    assert not found["a heap that sorts fill is short"]
    assert found["one that rows fill is short"]
    assert found["so is one that both fill"]
    assert not found["one that is not full is short"]


def test_many_small_statements_of_one_user_count_together(
    found: dict[str, bool],
) -> None:
    assert found["of many small ones the largest ends"]
    assert not found["those of many users count together"]


@pytest.mark.parametrize(
    "what",
    [
        "what is on the disk counts",
        "of a closed one only what runs",
        "much room is left on a large disk",
        "a part of a small one",
    ],
)
def test_disk_is_charged_to_who_wrote_it(what: str, found: dict[str, bool]) -> None:
    assert found[what]


@pytest.mark.parametrize(
    "what",
    [
        "who has no place is waited for at first",
        "the youngest give way, the share stays",
        "no more is taken than waits",
        "who began since gives way",
        "who went on is spared",
        "he gives way later",
        "who has most gives first",
    ],
)
def test_a_user_without_a_place_gets_one(what: str, found: dict[str, bool]) -> None:
    assert found[what]


@pytest.mark.parametrize(
    "what",
    [
        "more is taken while those end",
        "somebody's last place is taken",
        "places are taken for who has one",
        "places are taken for who had one between two looks",
        "places are taken while some are free",
    ],
)
def test_no_place_is_taken_without_need(what: str, found: dict[str, bool]) -> None:
    assert not found[what]


@pytest.mark.parametrize(
    "what",
    [
        "half of a user's room is not half full",
        "more is",
        "a user has so much",
        "all have so much",
        "what is removed leaves room",
        "room is taken from who has most",
        "and then from the next, the oldest",
        "what is read goes where there is nothing else",
        "nobody gets more than others have",
        "and none of these ends for it",
    ],
)
def test_results_have_so_much_room(what: str, found: dict[str, bool]) -> None:
    assert found[what]


@pytest.mark.parametrize(
    "what",
    [
        "few rows are in memory",
        "many rows are on the disk",
        "nothing is left of them",
        "a full disk is named",
    ],
)
def test_rows_wait_where_there_is_room(what: str, found: dict[str, bool]) -> None:
    assert found[what]


@pytest.mark.parametrize(
    "what",
    [
        "one user has all connections but the last",
        "the last one is for who has none",
        "the youngest of who has most gives way",
        "what becomes free goes to who has none",
        "two users have one each",
        "a single one is for everybody",
        "what was used last is kept",
        "the weight of what went is forgotten",
        "a name with a dot is its own",
    ],
)
def test_shares_caches_and_names(what: str, found: dict[str, bool]) -> None:
    assert found[what]


@pytest.mark.parametrize(
    "what",
    [
        "one user has the last connection, too",
        "there are more than so many",
        "who has one takes one away",
        "two give way for one",
        "somebody's only one is taken",
        "more than one heavy thing is kept",
        "it is another's, too",
        "rights at a source are those of the lake",
    ],
)
def test_what_shares_caches_and_names_refuse(what: str, found: dict[str, bool]) -> None:
    assert not found[what]


@pytest.mark.parametrize(
    "what",
    [
        "a dropped table",
        "a column of another type",
        "a text that is no number",
        "a view of a dropped table",
        "no right to read",
        "too many connections of a user",
        "too many connections",
        "a locked account",
        "an ended connection",
        "what nobody knows",
        "rows that are too wide",
    ],
)
def test_errors_of_sources_say_what_to_do(what: str, found: dict[str, bool]) -> None:
    assert found[f"error: {what}"]
