"""Which columns of MariaDB's log are read as columns of a plan."""

from __future__ import annotations

import pytest

from core.errors import TerminalError
from ingest.contract.table import ColumnSpec
from ingest.sources.mariadb.log import table_map as kinds
from ingest.sources.mariadb.log.binlog import Rows
from ingest.sources.mariadb.log.table_map import LogColumn, TableMap
from ingest.sources.mariadb.log.values import RowReader, codec_of

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


@pytest.mark.parametrize(
    ("collation", "own", "shared"),
    [(50, "3F", "98"), (70, "61", "AE"), (65, "3F", "E9"), (87, "C4E3", "80"), (47, "E9", "")],
)  # fmt: skip
def test_a_key_whose_text_can_be_that_of_another_is_refused(
    collation: int, own: str, shared: str
) -> None:
    """As a load refuses it (`test_mariadb_source.py`): both would be one row."""
    column = LogColumn("k", kinds.VARCHAR, 9, collation=collation)
    table = TableMap("d", "t", (column,))
    plan = (ColumnSpec("k", "k", "varchar(9)", "string"),)
    made = RowReader.of(table, plan, key=("k",))
    assert made.batch(Rows(table, [0], [(bytes.fromhex(own),)])).num_rows == 1
    if not shared:
        return
    both = Rows(table, [0, 0], [(bytes.fromhex(own),), (bytes.fromhex(shared),)])
    with pytest.raises(TerminalError, match=f"X'{shared.lower()}'") as caught:
        made.batch(both)
    assert caught.value.code == "key_text_shared"
    assert RowReader.of(table, plan).batch(both).num_rows == 2, "of no key"
