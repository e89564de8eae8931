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


def test_years_of_two_digits_are_as_the_server_prints_them() -> None:
    found, codes = LogColumn("n", kinds.YEAR), [124, 70, 100, 0, None]
    long = codec_of(found, ColumnSpec("n", "n", "year(4)", "int"))
    assert long(codes)[0].to_pylist() == [2024, 1970, 2000, 0, None]
    short = codec_of(found, ColumnSpec("n", "n", "year(2)", "int"))
    assert short(codes)[0].to_pylist() == [24, 70, 0, 0, None]


@pytest.mark.parametrize(("rest", "zeros"), [("", 0), (" unsigned zerofill", 37)])
def test_a_number_that_is_a_text_has_the_zeros_that_the_server_prints(
    rest: str, zeros: int
) -> None:
    plan = ColumnSpec("n", "n", f"decimal(40,1){rest}", "string")
    twelve_and_a_half = bytes([0x80, *bytes(16), 12, 5])
    found = codec_of(LogColumn("n", kinds.DECIMAL, 40, 1), plan)([twelve_and_a_half])
    assert found[0].to_pylist() == ["0" * zeros + "12.5"]


def test_the_first_second_of_1970_is_no_zero_date() -> None:
    plan = ColumnSpec("n", "n", "timestamp(1)", "timestamp")
    codec = codec_of(LogColumn("n", kinds.TIMESTAMP, digits=1), plan)
    values, bad = codec([bytes(5), bytes([0, 0, 0, 0, 50])])
    assert (values.cast("int64").to_pylist(), bad) == ([None, 500_000], [0])


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
