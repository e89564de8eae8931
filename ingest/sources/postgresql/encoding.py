"""Which text of a table is not in the encoding in which readers get it.

A database in SQL_ASCII takes any bytes, and its server refuses to send those that are
no UTF-8, without a word about where they are.
"""

from __future__ import annotations

from collections.abc import Callable

from ingest.contract.table import TableSpec
from ingest.sources.dialects import dialect_of
from ingest.sources.port import Row
from ingest.sources.select import relation_of

_CHECKS_NOTHING = "SQL_ASCII"
_DIALECT = dialect_of("postgresql")
# There a regular expression sees bytes. By Unicode's table of well-formed sequences.
_TAIL = r"[\u0080-\u00bf]"
_UTF8 = "|".join(
    (
        r"[\u0001-\u007f]",
        rf"[\u00c2-\u00df]{_TAIL}",
        rf"\u00e0[\u00a0-\u00bf]{_TAIL}",
        rf"[\u00e1-\u00ec\u00ee\u00ef]{_TAIL}{{2}}",
        rf"\u00ed[\u0080-\u009f]{_TAIL}",
        rf"\u00f0[\u0090-\u00bf]{_TAIL}{{2}}",
        rf"[\u00f1-\u00f3]{_TAIL}{{3}}",
        rf"\u00f4[\u0080-\u008f]{_TAIL}{{2}}",
    )
)
_MOST_SHOWN = 60


def find_bad_text(ask: Callable[[str], list[Row]], table: TableSpec) -> str:
    """Column and key of one row with bytes that are no UTF-8, and the encoding, in
    words; "" = there is none, or the database's encoding is another one. Reads the
    table until it finds one.

    ask  runs a statement at the source
    """
    [(encoding,)] = ask("SHOW server_encoding")
    names = [c.source_name for c in table.columns if "string" in c.type]
    if encoding != _CHECKS_NOTHING or not names:
        return ""
    pattern = _DIALECT.literal(f"^({_UTF8})*$")
    bad = [f'{_DIALECT.name(n)}::text COLLATE "C" !~ {pattern}' for n in names]
    key = [_DIALECT.name(name) for name in table.key] or ["ctid"]
    shown = [f"encode(convert_to({k}::text, '{encoding}'), 'escape')" for k in key]
    flags = [f"coalesce({each}, false)" for each in bad]
    found = ask(
        f"SELECT {', '.join([*shown, *flags])} FROM {relation_of(_DIALECT, table)}"
        f" WHERE {' OR '.join(bad)} LIMIT 1"
    )
    if not found:
        return ""
    values, is_bad = found[0][: len(key)], found[0][len(key) :]
    column = names[list(is_bad).index(True)]
    row = ", ".join(
        f"{name} = {str(value)[:_MOST_SHOWN]}"
        for name, value in zip(table.key or ("ctid",), values, strict=True)
    )
    return (
        f"column '{column}' of the row with {row} has bytes that are no UTF-8, which"
        f" the database's encoding {encoding} takes unchecked"
    )
