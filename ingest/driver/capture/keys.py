"""Whether the changed rows of an incremental sync have keys that tell them apart.

Looked at before the commit, which keeps one row per key. It must not know how rows are
applied.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from core.errors import InvalidRequest
from core.sentences import Sentence
from ingest.contract.table import TableSpec
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.rows import duplicate_keys, read_staged
from ingest.lake.port import Place
from ingest.sources.fingerprint import from_data
from ingest.sources.port import Source
from ingest.sources.select import select_columns
from ingest.sources.statements import repeated_keys, unfit_row

# Characters of a value in a message.
_MOST_SHOWN = 60
# Counting more repeated keys than this tells nobody anything new.
_MOST_COUNTED = 1_000


def has_unique_keys(source: Source, table: TableSpec) -> bool:
    """Equal rows of a table without a key become one when they are applied."""
    return table.row_hash or source.key_facts(table, table.key).is_unique


def refuse_repeated_keys(
    run: JobRun, spark: SparkSession, source: Source, *, staged: Place, changed: str
) -> None:
    """InvalidRequest `repeated_keys` when a key of the staged rows occurs twice among
    them, or at the source twice; `changed` is their condition there.
    `key_not_guaranteed` when the source cannot be asked and guaranteed the key before.
    A warning, for it guarantees nothing."""
    table = run.spec.table
    # without such an index the question would read the whole table each time
    may_ask = source.key_facts(table, table.key).is_walkable
    run.warn(_what_is_looked_for(table, may_ask=may_ask))
    selection = select_columns(source.dialect, table.columns)
    rows = read_staged(spark, selection, [staged.uri])
    repeated = duplicate_keys(rows, table, selection)
    if not repeated and may_ask:
        repeated = repeated_at_source(source, table, changed)
    if repeated:
        raise InvalidRequest(
            "%(repeated)s keys of %(table)s occur more than once in %(key)s:"
            " the lake table would keep one row of each. Nothing was written,"
            " and the position stays where it was",
            repeated=repeated,
            table=table.at_source,
            key=", ".join(table.key),
            code="repeated_keys",
            hint="make these columns unique at the source again, then resume; or remove"
            " the table and add it again with columns that are unique together",
        )
    if (
        not may_ask
        and from_data(run.source_fingerprint.get("source_fingerprint", {})).is_unique
    ):
        raise _no_more_unique(table)


def null_keys(
    source: Source, table: TableSpec, count: int, *, where: str = ""
) -> InvalidRequest:
    """Of `count` staged rows whose key is NULL as the lake would have it, which is not
    always NULL at the source: names the first column of the key with such a value.

    where  their condition at the source
    """
    dialect, columns = source.dialect, {c.source_name: c for c in table.columns}
    rows = Sentence("1 row") if count == 1 else Sentence("%(n)s rows", n=count)
    said = Sentence(
        "%(rows)s of %(table)s cannot be synced", rows=rows, table=table.at_source
    )
    for name in table.key:
        column, value = columns[name], dialect.name(name)
        fits = dialect.read(column).fits
        text = [dialect.shown(value)]
        found = fits and source.rows(
            unfit_row(dialect, table, text, where=where, fits=fits)
        )
        if found:
            return InvalidRequest(
                "%(what)s: '%(name)s' (%(source_type)s) is of the key and has"
                " %(found)s, for which %(type)s of the lake has no form. Nothing"
                " was written",
                what=said,
                name=name,
                source_type=column.source_type,
                found=str(found[0][0])[:_MOST_SHOWN],
                type=column.type,
                code="key_without_form",
                hint="mend the value at the source, then resume; or remove the table"
                " and add it again with 'as_text': [\"%(name)s\"], which syncs the"
                " column as text, or with another key",
            )
    return InvalidRequest(
        "%(what)s: NULL in the key %(key)s. Nothing was written",
        what=said,
        key=", ".join(table.key),
        code="null_keys",
        hint="choose a key that is never NULL; a table that is loaded once may have the"
        " whole-row hash",
    )


def refuse_shared_texts(
    source: Source, table: TableSpec, types: Sequence[str], *, where: str
) -> None:
    """InvalidRequest `key_text_shared` when the text in Unicode of a key of these rows
    can be that of another key, be it there or to come: the lake would have one row of
    both. It names the first such column and value.

    types  of the key's columns, as the source's `key_facts` has them
    where  the rows' condition at the source
    """
    dialect = source.dialect
    for name, type in zip(table.key, types, strict=True):
        value = dialect.name(name)
        if not (fits := dialect.comes_back(value, type)):
            continue
        shown = dialect.key_text(value, type), dialect.shown(value)
        found = source.rows(unfit_row(dialect, table, shown, where=where, fits=fits))
        if found:
            raise InvalidRequest(
                "%(table)s cannot be synced: '%(name)s' (%(type)s) is of the key"
                " and has X'%(found)s', which in Unicode is '%(character)s', as"
                " another key is or can be: the lake would keep one row of both."
                " Nothing was written",
                table=table.at_source,
                name=name,
                type=type,
                found=found[0][0][:_MOST_SHOWN],
                character=found[0][1][:_MOST_SHOWN],
                code="key_text_shared",
                hint="give the column the character set utf8mb4 at the source, or"
                " change this value there, then resume; or remove the table and add it"
                " again with another key",
            )


def _what_is_looked_for(table: TableSpec, *, may_ask: bool) -> str:
    key = ", ".join(table.key)
    none = Sentence(
        "no unique index of %(table)s keeps %(key)s unique for all of its rows",
        table=table.at_source,
        key=key,
    )
    if may_ask:
        return Sentence(
            "%(none)s: each sync looks for repeated keys among the changed"
            " rows and, for their keys, at the source, and stops when it finds"
            " one",
            none=none,
        )
    return Sentence(
        "%(none)s, and no index begins with %(key)s: each sync looks for"
        " repeated keys among the changed rows only. A changed row would"
        " replace an unchanged one with the same key; verify the table now"
        " and then",
        none=none,
        key=key,
    )


def _no_more_unique(table: TableSpec) -> InvalidRequest:
    key = ", ".join(table.key)
    return InvalidRequest(
        "source table %(table)s changed: it kept %(key)s unique and does"
        " so no more, and no index that begins with %(key)s leads a sync to"
        " repeated keys. Nothing was written",
        table=table.at_source,
        key=key,
        code="key_not_guaranteed",
        hint="make these columns unique at the source again, then resume; or remove the"
        " table and add it again with columns that are unique together; or resync it:"
        " it goes on without that guarantee then, and each sync warns",
    )


def repeated_at_source(source: Source, table: TableSpec, changed: str) -> int:
    """Keys of changed rows that other rows have as well, changed or not. Within a
    snapshot there are operators for types of extensions, too."""
    sql = repeated_keys(source.dialect, table, changed, most=_MOST_COUNTED)
    try:
        with source.within(table):
            return int(source.one(sql)[0])
    finally:
        source.give_back()
