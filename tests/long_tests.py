"""Which tests of a folder a run takes: the long ones by slice, those of the product or
those without it.

`@pytest.mark.long` marks a test of a long matrix (every victim, every moment, every
kind) whose behaviour a shorter test shows as well. Those with the same `together` share
something that is dear to set up and are in one slice. Named by its node id, a long test
always runs.
"""

from __future__ import annotations

from typing import Any

import pytest

from config.toolchain import slices


def first_then_long(*values: Any, first: int = 1) -> list[Any]:
    """Parameters of a test of which so many always run and the others are long; a tuple
    is those of several names."""
    rows = (one if isinstance(one, tuple) else (one,) for one in values[first:])
    long = (pytest.param(*row, marks=pytest.mark.long) for row in rows)
    return [*values[:first], *long]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--long",
        default="none",
        metavar="SLICE",
        help="long tests to run: none, all, or a slice of them as 3/12",
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "long(together=''): one of a long matrix; runs in its slice and in test-all",
        "product: uses the running product; put there by the fixture",
        "engine: asks a query engine (tests/spark marks them by their fixtures)",
        "own_driver: has drivers of its own, not the session that tests/spark shares",
    ):
        config.addinivalue_line("markers", line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    try:
        wanted = slices.parse(config.getoption("--long"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    for item in items:
        if "product" in getattr(item, "fixturenames", ()):
            item.add_marker("product")
    left_out = [item for item in items if not is_taken(item, wanted, config.args)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def is_taken(item: pytest.Item, wanted: slices.Slice, named: list[str]) -> bool:
    mark = item.get_closest_marker("long")
    names = (item.nodeid, item.nodeid.partition("[")[0])
    if mark is None or any(one.endswith(names) for one in named):
        return True
    return wanted.takes(mark.kwargs.get("together") or item.nodeid)
