"""Schedules by seed: who acts, and between which statements of a job.

The same seed is the same plan. `FOUND` keeps the seeds that once showed a violation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.hostile import acts
from tests.hostile.play import JOBS, Plan

KINDS = ("postgresql", "mariadb")
# What each of them showed before reading was made safe.
_EMPTY = "a rewritten or truncated table read as empty, and the job succeeded"
_JAM = "job and ALTER waited for each other until somebody ended one of them"
FOUND: dict[int, str] = {
    **dict.fromkeys((2, 53, 54, 58, 66, 95), _EMPTY),
    **dict.fromkeys((6, 18, 69, 78), _JAM),
    118: "a key that was repeated while a load read it was twice in the lake",
}
# The schedules that every run takes: one that failed, and one of the other kind.
SLICE = (95, 3042)
# With them every act is played by each kind of source, and each job, too.
OTHERS = (
    *(6, 3044, 3092, 3179, 3298, 3360, 3546, 3561),
    *(
        3003,
        3004,
        3014,
        3018,
        3024,
        3027,
        3028,
        3036,
        3070,
        3071,
        3073,
        3074,
        3078,
        3091,
    ),
    *(3119, 3121, 3135, 3149, 3151, 3157, 3314, 3365),
    *(seed for seed in FOUND if seed not in (*SLICE, 6)),
)
# About so many statements does a quiet job send, which a test holds; what is due later
# comes at its end.
STATEMENTS = {
    "postgresql": dict(zip(JOBS, (89, 63, 87, 87, 93), strict=True)),
    "mariadb": dict(zip(JOBS, (63, 47, 63, 63, 85), strict=True)),
}
# What seeds below WHOLE_JOBS_FROM took for the end of a job: they mean what they meant.
_FORMER_ENDS = dict(zip(JOBS, (32, 22, 30, 32, 28), strict=True))
_TABLES = (*acts.REWRITES, *acts.SWAPS, *acts.COLUMNS, *acts.PARTITIONS)
_BESIDE = (*acts.ROWS, *acts.NETWORK)
# What seeds from here on choose from, too.
LATER_ACTS_FROM = 1_000
MOVES_FROM = 2_000
# These act up to the end of a job, and not all of them move its source.
WHOLE_JOBS_FROM = 3_000


def moves() -> list[Plan]:
    """Each way in which a source's server is restarted or moved, in the middle of each
    kind of job."""
    return [
        Plan(kind, job, (act.name,), tuple((STATEMENTS[kind][job], 0) for _ in script))
        for kind in KINDS
        for job in JOBS
        for act in (*acts.SERVER, *acts.MOVES)
        if (script := act.script(kind, "t"))
    ]


def plan_of(
    seed: int, *, kinds: Sequence[str] = KINDS, jobs: Sequence[str] = JOBS
) -> Plan:
    """One to three others: mostly one who changes the table's definition, and some who
    write rows or disturb the network."""
    chance = random.Random(seed)
    kind, job = chance.choice(kinds), chance.choice(jobs)
    chosen = [chance.choice(_TABLES)] if chance.random() < 0.8 else []
    many = chance.choice((1, 1, 2)) if not chosen else chance.choice((0, 1, 1, 2))
    beside = (*_BESIDE, *acts.SERVER) if seed >= LATER_ACTS_FROM else _BESIDE
    is_whole = seed >= WHOLE_JOBS_FROM
    if seed >= MOVES_FROM and (not is_whole or chance.random() < 0.3):
        moves = [act for act in acts.MOVES if act.script(kind, "t")]
        chosen.append(chance.choice(moves))
    chosen += chance.sample(beside, many)
    names = tuple(act.name for act in chosen)
    steps: list[tuple[int, int]] = []
    for which, act in enumerate(chosen):
        count = len(act.script(kind, "t"))
        last = 2 * (STATEMENTS[kind] if is_whole else _FORMER_ENDS)[job]
        places = sorted(chance.randint(1, last) for _ in range(count))
        if chance.random() < 0.3:
            # all of it between the same two statements
            places = places[:1] * count
        steps += [(place, which) for place in places]
    return Plan(kind, job, names, tuple(sorted(steps)), seed)
