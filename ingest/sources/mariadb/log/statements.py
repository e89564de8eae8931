"""What a statement in the log does to tables: of such there are no rows. Pure.

No grammar of SQL: the few forms that are understood say what they do. Anything else may
change rows of any table: no text says what views, triggers and functions write to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

Name = tuple[str, str]

# Of a version's own comments only the marks go.
_TOKEN = re.compile(
    r"(?P<skip>\s+|/\*M?!\d*|\*/|/\*.*?\*/|--[ \t][^\n]*|\#[^\n]*)"
    r"|(?P<text>'(?:[^'\\]|''|\\.)*')"
    r"|(?P<quoted>`(?:[^`]|``)+`|\"(?:[^\"]|\"\")*\")"
    r"|(?P<word>[\w$@]+)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_DOT = "."
# What these are about holds no rows, or its rows stay as they are.
_OTHERS = frozenset(
    {
        "VIEW",
        "TRIGGER",
        "PROCEDURE",
        "FUNCTION",
        "EVENT",
        "USER",
        "ROLE",
        "SEQUENCE",
        "TEMPORARY",
        "SERVER",
        "INDEX",
        "UNIQUE",
        "FULLTEXT",
        "SPATIAL",
        "PACKAGE",
    }
)
_HARMLESS = frozenset(
    {
        "GRANT",
        "REVOKE",
        "OPTIMIZE",
        "CHECK",
        "REPAIR",
        "FLUSH",
        "SET",
        "SAVEPOINT",
        "RELEASE",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "XA",
        "START",
        "USE",
    }
)
_BETWEEN = frozenset({"OR", "REPLACE", "IF", "NOT", "EXISTS", "ONLINE", "IGNORE"})
# Parts of an ALTER TABLE that leave every value of every column as it is.
_KEEPS = frozenset(
    {
        "COMMENT",
        "AUTO_INCREMENT",
        "ROW_FORMAT",
        "FORCE",
        "ALGORITHM",
        "LOCK",
        "STATS_PERSISTENT",
        "STATS_AUTO_RECALC",
        "STATS_SAMPLE_PAGES",
        "KEY_BLOCK_SIZE",
        "ALTER",
    }
)
_DROPS = frozenset({"INDEX", "KEY", "CONSTRAINT", "CHECK", "FOREIGN"})


@dataclass(frozen=True, slots=True)
class Effect:
    """tables: that it is about, followed or not; database: all of it; may_be_any: it
    may write rows of tables that its text does not name. empties: they have no rows
    now, and nothing else happened. is_harmless: every value is as it was, though there
    may be more columns, or keys."""

    tables: frozenset[Name] = frozenset()
    database: str = ""
    empties: bool = False
    is_harmless: bool = False
    may_be_any: bool = False

    def is_about(self, name: Name) -> bool:
        return self.may_be_any or name in self.tables or name[0] == self.database

    def named(self, change: Callable[[str, str], Name]) -> Effect:
        """By names as the server compares them: the log has the text as it was
        written."""
        tables = frozenset(change(*name) for name in self.tables)
        return replace(self, tables=tables, database=change(self.database, "")[0])


NOTHING = Effect()
# As a session logs it that does not log rows.
_ANYTHING = Effect(may_be_any=True)


@dataclass(frozen=True, slots=True)
class _Token:
    """word: in upper case; "" of what is quoted. name: as written, "" = no name."""

    word: str = ""
    name: str = ""
    sign: str = ""


def effect_of(statement: str, database: str) -> Effect:
    """database: in which it ran."""
    tokens = _without_settings(list(_tokens(statement)))
    verb = tokens[0].word if tokens else ""
    rest = tokens[1:]
    head = [token.word for token in rest[:4]]
    is_analysis = verb == "ANALYZE" and bool({*head[:2]} & {"TABLE", "TABLES"})
    if verb in _HARMLESS or not verb or is_analysis:
        return NOTHING
    if verb == "TRUNCATE":
        name, _ = _name(rest[head[0] == "TABLE" :], database)
        return Effect(frozenset({name}), empties=True)
    if verb == "RENAME":
        return Effect(frozenset(_names(rest, database)))
    if verb in {"CREATE", "ALTER", "DROP"}:
        return _definition(verb, rest, database)
    return _ANYTHING


def _definition(verb: str, rest: Sequence[_Token], database: str) -> Effect:
    skipped = set()
    while rest and rest[0].word in _BETWEEN:
        skipped.add(rest[0].word)
        rest = rest[1:]
    kind = rest[0].word if rest else ""
    if verb == "CREATE" and kind in {"TABLE", "TEMPORARY"} and _selects(rest):
        return _ANYTHING
    if kind in {"DATABASE", "SCHEMA"}:
        names = [t.name for t in rest[1:] if t.name and t.word not in _BETWEEN]
        is_gone = verb == "DROP" or "REPLACE" in skipped
        return Effect(database=names[0]) if is_gone and names else NOTHING
    if kind in _OTHERS or kind in {"DEFINER", "ALGORITHM", "SQL", "AGGREGATE"}:
        return NOTHING
    rest = rest[1:]
    while rest and rest[0].word in _BETWEEN:
        skipped.add(rest[0].word)
        rest = rest[1:]
    if kind != "TABLE":
        return Effect(frozenset(_names(rest, database)))
    if verb == "CREATE":
        name, _ = _name(rest, database)
        # a table of that name is left alone then
        return NOTHING if "NOT" in skipped else Effect(frozenset({name}))
    if verb == "ALTER":
        name, parts = _name(rest, database)
        parts = parts[{"WAIT": 2, "NOWAIT": 1}.get(parts[0].word, 0) if parts else 0 :]
        # IGNORE deletes rows that a new key does not allow
        keeps = all(_keeps(part) for part in _split(parts))
        if keeps and "IGNORE" not in skipped:
            return Effect(frozenset({name}), is_harmless=True)
        if not {"RENAME", "EXCHANGE"} & {token.word for token in parts}:
            return Effect(frozenset({name}))
    return Effect(frozenset(_names(rest, database)))


def _selects(tokens: Sequence[_Token]) -> bool:
    """Whether its rows are computed, maybe by functions that write; of a server that
    logs rows such a statement comes without that."""
    return any(
        token.word == "SELECT" or (token.word == "VALUES" and after.sign == "(")
        for token, after in zip(tokens, [*tokens[1:], _Token()], strict=True)
    )


def _keeps(part: Sequence[_Token]) -> bool:
    words = [token.word for token in part[:3]] + ["", "", ""]
    if words[0] == "ADD":
        return not _cascades(part)
    if words[0] == "RENAME":
        return words[1] in {"INDEX", "KEY"}
    if words[0] == "DROP":
        return words[1] in _DROPS
    return words[0] in _KEEPS


def _cascades(part: Sequence[_Token]) -> bool:
    """Whether it adds a foreign key by which the engine changes rows. A look at the
    table may come when the key is gone again."""
    words = [token.word for token in part]
    pairs = {*pairwise(words)}
    return "CASCADE" in words or bool(pairs & {("SET", "NULL"), ("SET", "DEFAULT")})


def _without_settings(tokens: list[_Token]) -> list[_Token]:
    """SET STATEMENT … FOR a statement: that one."""
    while [token.word for token in tokens[:2]] == ["SET", "STATEMENT"]:
        depth, rest = 0, iter(tokens)
        for token in rest:
            depth += {"(": 1, ")": -1}.get(token.sign, 0)
            if token.word == "FOR" and not depth:
                break
        tokens = [*rest]
    return tokens


def _split(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """At the commas that are in no brackets."""
    depth, found = 0, list[_Token]()
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.sign, 0)
        if token.sign == "," and not depth:
            yield found
            found = []
        else:
            found.append(token)
    yield found


def _name(tokens: Sequence[_Token], database: str) -> tuple[Name, Sequence[_Token]]:
    """The name at the front, and what is behind it."""
    if len(tokens) > 2 and tokens[1].sign == _DOT:
        return (tokens[0].name, tokens[2].name), tokens[3:]
    return (database, tokens[0].name if tokens else ""), tokens[1:]


def _names(tokens: Sequence[_Token], database: str) -> Iterator[Name]:
    """All that may be one."""
    for n, token in enumerate(tokens):
        if not token.name:
            continue
        if n > 1 and tokens[n - 1].sign == _DOT:
            yield tokens[n - 2].name, token.name
        else:
            yield database, token.name


def _tokens(statement: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(statement):
        if found["quoted"]:
            mark, inner = found["quoted"][0], found["quoted"][1:-1]
            yield _Token(name=inner.replace(mark * 2, mark))
        elif found["word"]:
            yield _Token(word=found["word"].upper(), name=found["word"])
        elif found["sign"]:
            yield _Token(sign=found["sign"])
