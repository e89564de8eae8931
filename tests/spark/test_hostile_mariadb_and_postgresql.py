"""A source that changes, locks and falls silent between the statements of a job.

What must hold is the same for every case, `tests.hostile.oracle`: the lake is the
source by key and value, or the job did not succeed and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.fault.hostile import mariadb_stage, postgresql_stage
from tests.hostile.play import JOBS, Plan, Stage, short_pauses
from tests.hostile.schedules import KINDS, OTHERS, SLICE, STATEMENTS, moves, plan_of
from tests.hostile.shapes import SHAPES, Shape
from tests.spark.lake_bench import LakeBench
from tests.spark.mariadb_bench import MariadbBench

pytestmark = pytest.mark.timeout(900)
LONG = [pytest.param(seed, marks=pytest.mark.long) for seed in OTHERS]
# A quiet job sends some statements more or fewer, as its readers come.
SOME = 0.3


@pytest.fixture(scope="module")
def stage_of(
    spark: Any,
    source_pg: Any,
    mariadb_server: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], Stage]]:
    made = {
        "postgresql": Stage(
            LakeBench(
                spark,
                source_pg.create_database("hostile"),
                tmp_path_factory.mktemp("hostile-pg"),
            )
        ),
        "mariadb": Stage(
            MariadbBench(spark, mariadb_server, tmp_path_factory.mktemp("hostile-my"))
        ),
    }
    with short_pauses():
        yield made.__getitem__
    for stage in made.values():
        stage.close()


@pytest.mark.parametrize("seed", [*SLICE, *LONG])
def test_a_schedule_by_seed(stage_of: Callable[[str], Stage], seed: int) -> None:
    plan = plan_of(seed)
    result = stage_of(plan.kind).play(plan)
    assert result.violations == [], result.facts
    assert result.acted > len(result.errors), result.facts


@pytest.mark.long(together="quiet jobs")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("job", JOBS)
def test_schedules_know_how_long_a_job_is(
    stage_of: Callable[[str], Stage], kind: str, job: str
) -> None:
    """Else nobody acts before its end, or nobody near it."""
    result = stage_of(kind).play(Plan(kind, job, (), ()))
    assert result.outcome == "succeeded", result.facts
    assert result.statements == pytest.approx(STATEMENTS[kind][job], rel=SOME)


@pytest.fixture(scope="module")
def moved_stage_of(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Stage]]:
    """On servers of their own, which go back to an earlier moment with all they have."""
    home = tmp_path_factory.mktemp("moved")
    with ExitStack() as stack:
        made = {
            "postgresql": postgresql_stage(stack, spark, home, "moved"),
            "mariadb": mariadb_stage(stack, spark, home / "mariadb"),
        }
        stack.enter_context(short_pauses())
        yield made.__getitem__


@pytest.mark.long(together="moved sources")
@pytest.mark.parametrize(
    "plan", [pytest.param(p, id=f"{p.kind} {p.job} {p.acts[0]}") for p in moves()]
)
def test_a_source_is_moved_under_a_job(
    moved_stage_of: Callable[[str], Stage], plan: Plan
) -> None:
    """What a job notices of it without one running is in `tests/integration/ingest`."""
    result = moved_stage_of(plan.kind).play(plan)
    assert result.violations == [], result.facts


def shape_param(shape: Shape) -> Any:
    marks = [pytest.mark.long] if shape.is_long else []
    return pytest.param(shape, marks=marks, id=f"{shape.kind} {shape.name}")


@pytest.mark.parametrize("shape", [shape_param(shape) for shape in SHAPES])
def test_a_table_of_an_odd_shape(
    stage_of: Callable[[str], Stage], shape: Shape
) -> None:
    followed = stage_of(shape.kind).follow_shape(shape)
    assert followed.end == shape.ends
    if shape.ends == "succeeded":
        assert followed.violations == []
    if shape.warns:
        assert any(shape.warns in warning for warning in followed.warnings)
