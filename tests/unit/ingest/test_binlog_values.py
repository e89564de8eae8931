"""Which columns of MariaDB's log are read as columns of a plan."""

from __future__ import annotations

import pytest

from ingest.contract.table import ColumnSpec
from ingest.sources.mariadb.log import table_map as kinds
from ingest.sources.mariadb.log.table_map import LogColumn
from ingest.sources.mariadb.log.values import codec_of

PLANNED = ColumnSpec("n", "n", "decimal(10,2)", "decimal(10,2)")


@pytest.mark.parametrize(("length", "scale"), [(10, 3), (12, 2), (9, 1)])
def test_a_number_of_other_digits_is_refused(length: int, scale: int) -> None:
    """1.234 would be 12.34: an ALTER that is not in the log made it so."""
    found = LogColumn("n", kinds.DECIMAL, length, scale)
    with pytest.raises(ValueError, match=rf"decimal\({length},{scale}\) in the log"):
        codec_of(found, PLANNED)


def test_a_number_of_fewer_digits_before_its_point_is_read() -> None:
    """Of a plan whose type has grown."""
    values, bad = codec_of(LogColumn("n", kinds.DECIMAL, 5, 2), PLANNED)([None])
    assert (values.to_pylist(), bad) == ([None], [])
