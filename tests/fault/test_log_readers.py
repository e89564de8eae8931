"""One seeded run of a reader per kind of source and victim; the campaign (`make fault`)
runs many.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault import log_readers
from tests.small_disk import may_mount

VICTIMS = log_readers.VICTIMS if may_mount() else log_readers.VICTIMS[:-1]


@pytest.fixture(scope="module")
def reads(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, log_readers.Read]]:
    with log_readers.servers(tmp_path_factory.mktemp("readers")) as found:
        yield {one.kind: one for one in found}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_reader_brings_each_change_once(
    reads: dict[str, log_readers.Read], tmp_path: Path, kind: str, victim: str
) -> None:
    log_readers.run(reads[kind], tmp_path, victim, seed=20261127)
