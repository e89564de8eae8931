"""What a statement in the log does to tables: of such there are no rows. Pure.

No grammar of SQL: the few forms that are understood say what they do. Anything else may
change rows of any table: no text says what views, triggers and functions write to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

Name = tuple[str, str]

# Of a version's own comments only the marks go. What is no letter, but beyond ASCII, is
# part of a name.
_TOKEN = (
    r"(?P<skip>[ \t\n\v\f\r]+|/\*M?!\d*|\*/|/\*.*?\*/|\#[^\n]*"
    r"|--(?=[\x00-\x20\x7f]|\Z)[^\n]*)"
    r"|(?P<text>{texts})"
    r"|(?P<quoted>{names})"
    r"|(?P<word>[\w$@\u0080-\uffff]+)"
    r"|(?P<sign>.)"
)
_DOT = "."
_VERSIONED = re.compile(r"/\*M?!")
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
_INDEXES = frozenset({"INDEX", "UNIQUE", "FULLTEXT", "SPATIAL"})
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
        "ENGINE",
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
# Other partitions than before have the same rows; but of lists the server deletes those
# that a new one does not have.
_DIVIDES = frozenset(
    {("REORGANIZE", "PARTITION"), ("COALESCE", "PARTITION"), ("REBUILD", "PARTITION")}
    | {("PARTITION", "BY"), ("REMOVE", "PARTITIONING")}
)
_DROPS = frozenset({"INDEX", "KEY", "CONSTRAINT", "CHECK", "FOREIGN"})
_UNIQUE = frozenset({"UNIQUE", "PRIMARY"})
# What may stand behind the default of a column that is added.
_BEHIND_DEFAULT = frozenset(
    {"NOT", "NULL", "AFTER", "FIRST", "COMMENT", "UNIQUE", "KEY", "INVISIBLE"}
)
# A column with one of these has other values than a text after DEFAULT says.
_MAKES = frozenset({"AS", "GENERATED", "AUTO_INCREMENT", "SERIAL", "UPDATE"})
_BOOLEANS = {"TRUE": "1", "FALSE": "0"}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
# An ALTER TABLE that does this names other tables, too.
_OF_OTHERS = frozenset({"RENAME", "EXCHANGE", "CONVERT"})
# What is added beside columns.
_ADDS = frozenset(
    {"INDEX", "KEY", "CONSTRAINT", "PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL"}
    | {"FOREIGN", "CHECK", "PARTITION"}
)
# No names unless they are quoted: a dot behind one begins a name.
_BEFORE_NAMES = frozenset({"TABLE", "TO", "EXISTS", "RENAME", "AS", "WITH"})
_ADDS_BY_TWO = frozenset({("PERIOD", "FOR"), ("SYSTEM", "VERSIONING")})


@dataclass(frozen=True, slots=True)
class Effect:
    """tables: that it is about, followed or not; database: all of it; may_be_any: it
    may write rows of tables that its text does not name. empties: they have no rows
    now, and nothing else happened. is_harmless: every value is as it was, though there
    may be more columns, or keys; but of the columns `touches` (in lower case) only a
    look at the table shows that. defaults: of those, the ones of which only later rows
    get another default. renames: tables, and what they are called behind it.
    drops: of those, the ones that go. is_new: it makes this table, like the table
    `like` where it says that. is_unique: it may allow fewer rows than before. keys:
    indexes that it drops or renames, and their new names, all in lower case.
    is_dropped: there are no such tables behind it. given: columns that it adds, in
    lower case, and their defaults as information_schema has them, None = it says none;
    of one that is no plain value nothing is said here.
    """

    tables: frozenset[Name] = frozenset()
    database: str = ""
    empties: bool = False
    is_harmless: bool = False
    may_be_any: bool = False
    touches: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()
    renames: tuple[tuple[Name, Name], ...] = ()
    drops: frozenset[str] = frozenset()
    is_new: bool = False
    like: Name = ("", "")
    is_unique: bool = False
    keys: tuple[tuple[str, str], ...] = ()
    is_dropped: bool = False
    given: tuple[tuple[str, str | None], ...] = ()

    def is_about(self, name: Name) -> bool:
        return self.may_be_any or name in self.tables or name[0] == self.database

    def ends(self, name: Name) -> bool:
        """Whether there is no table of that name behind it."""
        former, new = ({pair[end] for pair in self.renames} for end in (0, 1))
        return self.is_dropped or name in former - new

    def named(self, change: Callable[[str, str], Name]) -> Effect:
        """By names as the server compares them: the log has the text as it was
        written."""
        return replace(
            self,
            tables=frozenset(change(*name) for name in self.tables),
            database=change(self.database, "")[0],
            renames=tuple((change(*a), change(*b)) for a, b in self.renames),
            like=change(*self.like),
        )


@dataclass(frozen=True, slots=True)
class Quoting:
    """By a session's sql_mode. has_names: "t" is a name, not a text (ANSI_QUOTES).
    is_plain: a backslash in a text is one (NO_BACKSLASH_ESCAPES)."""

    has_names: bool = False
    is_plain: bool = False


BY_DEFAULT = Quoting()
NOTHING = Effect()
# As a session logs it that does not log rows.
_ANYTHING = Effect(may_be_any=True)


@dataclass(frozen=True, slots=True)
class _Token:
    """word: in upper case; "" of what is quoted. name: as written, "" = no name. text:
    as written, with its marks."""

    word: str = ""
    name: str = ""
    sign: str = ""
    text: str = ""


def effect_of(statement: str, database: str, quoting: Quoting = BY_DEFAULT) -> Effect:
    """database: in which it ran."""
    tokens = _without_settings(list(_tokens(statement, quoting)))
    verb = tokens[0].word if tokens else ""
    rest = tokens[1:]
    head = [token.word for token in rest[:4]]
    is_analysis = verb == "ANALYZE" and bool({*head[:2]} & {"TABLE", "TABLES"})
    if verb in _HARMLESS or not tokens or is_analysis:
        return NOTHING
    if verb == "TRUNCATE":
        name, _ = _name(rest[head[:1] == ["TABLE"] :], database)
        return Effect(frozenset({name}), empties=True)
    if verb == "RENAME":
        renames = tuple(_renames(rest, database))
        return Effect(frozenset(_names(rest[1:], database)), renames=renames)
    if verb in {"CREATE", "ALTER", "DROP"}:
        found = _definition(verb, rest, database)
        # which servers read what is in a version's comment, is not asked
        is_read = not _VERSIONED.search(statement)
        return found if is_read else replace(found, given=())
    return _ANYTHING


def _renames(rest: Sequence[_Token], database: str) -> Iterator[tuple[Name, Name]]:
    """Of RENAME TABLE, in their order."""
    for part in _split(rest[1:]):
        for n, token in enumerate(part):
            # behind a dot it is a name
            if token.word == "TO" and n and part[n - 1].sign != _DOT:
                former = part[2 if part[0].word == "IF" else 0 : n]
                yield _name(former, database)[0], _name(part[n + 1 :], database)[0]
                break


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
        is_dropped = verb == "DROP"
        if not names or not (is_dropped or "REPLACE" in skipped):
            return NOTHING
        return Effect(database=names[0], is_dropped=is_dropped)
    if kind in _INDEXES and (verb == "DROP" or "REPLACE" in skipped):
        return _without_index(rest, database)
    if kind in _OTHERS or kind in {"DEFINER", "ALGORITHM", "SQL", "AGGREGATE"}:
        return NOTHING
    rest = rest[1:]
    while rest and rest[0].word in _BETWEEN:
        skipped.add(rest[0].word)
        rest = rest[1:]
    if kind != "TABLE":
        return Effect(frozenset(_names(rest, database)))
    if verb == "CREATE":
        name, behind = _name(rest, database)
        # a table of that name is left alone then
        if "NOT" in skipped:
            return NOTHING
        return Effect(frozenset({name}), is_new=True, like=_like(behind, database))
    if verb == "ALTER":
        name, parts = _name(rest, database)
        parts = parts[{"WAIT": 2, "NOWAIT": 1}.get(parts[0].word, 0) if parts else 0 :]
        # IGNORE deletes rows that a new key does not allow
        if "IGNORE" not in skipped and (effect := _altered(name, parts)):
            return effect
        if not _OF_OTHERS & {token.word for token in parts}:
            return Effect(frozenset({name}))
    return Effect(frozenset(_names(rest, database)), is_dropped=verb == "DROP")


def _without_index(rest: Sequence[_Token], database: str) -> Effect:
    """Behind DROP, or CREATE OR REPLACE: INDEX i ON a table."""
    words = [token.word for token in rest]
    at = words.index("ON") if "ON" in words else len(words)
    name, _ = _name(rest[at + 1 :], database)
    before = [t for t in rest[:at] if t.word not in _INDEXES | _BETWEEN]
    index = before[0].name.lower() if before else ""
    return Effect(frozenset({name}), is_harmless=True, keys=((index, ""),))


def _altered(name: Name, parts: Sequence[_Token]) -> Effect | None:
    """None where an ALTER TABLE may do more than a look behind it shows."""
    words = [token.word for token in parts]
    if tuple(words[:2]) in _DIVIDES and ("VALUES", "IN") not in pairwise(words):
        return Effect(frozenset({name}), is_harmless=True)
    dropped: set[str] = set()
    touches: set[str] = set()
    defaults: set[str] = set()
    concerned = Counter[str]()
    keys: list[tuple[str, str]] = []
    for part in _split(parts):
        keys += _keys_of(part)
        if gone := _dropped(part):
            dropped.add(gone)
            continue
        touched = _touched(part)
        if touched is None:
            return None
        (defaults if _alters_default(part) else touches).update(touched)
        concerned.update(touched)
    defaults -= touches
    if dropped & (touches | defaults):
        return None  # a column that comes again is another one
    return Effect(
        frozenset({name}),
        is_harmless=True,
        touches=frozenset(touches | dropped | defaults),
        defaults=frozenset(defaults),
        drops=frozenset(dropped),
        is_unique=bool(_UNIQUE & {token.word for token in parts}),
        keys=tuple(keys),
        # another part may give rows another default than that which adds the column
        given=tuple(
            (name, default)
            for part in _split(parts)
            for name, default in _given(part)
            if concerned[name] == 1
        ),
    )


def _given(part: Sequence[_Token]) -> Iterator[tuple[str, str | None]]:
    """See `Effect.given`. What `IF NOT EXISTS` adds may have been there."""
    words = [token.word for token in part]
    added = _behind_column(part)
    is_column = words[:1] == ["ADD"] and len(added) > 1 and bool(added[0].name)
    is_other = words[1:2] and (words[1] in _ADDS or tuple(words[1:3]) in _ADDS_BY_TWO)
    if not is_column or is_other or {"IF", *_MAKES} & {*words}:
        return
    name = added[0].name.lower()
    if "DEFAULT" not in words:
        yield name, None
    elif default := _literal(part[words.index("DEFAULT") + 1 :]):
        yield name, default


def _literal(tokens: Sequence[_Token]) -> str:
    """The plain value at the front as information_schema has it, "" = it is none."""
    first = tokens[0] if tokens else _Token()
    if first.text:
        value, rest = _plain_text(first.text), tokens[1:]
    elif first.word == "NULL":
        value, rest = "NULL", tokens[1:]
    else:
        words = [token.word for token in tokens]
        ends = [n for n, word in enumerate(words) if word in _BEHIND_DEFAULT]
        size = ends[0] if ends else len(words)
        value = "".join(t.text or t.name or t.sign for t in tokens[:size]).upper()
        value, rest = _BOOLEANS.get(value, value), tokens[size:]
        if not _NUMBER.fullmatch(value):
            return ""
    return "" if rest and rest[0].word not in _BEHIND_DEFAULT else value


def _plain_text(text: str) -> str:
    """What it is depends neither on modes of its session nor on its character set, ""
    = it may."""
    inner = text[1:-1]
    if not (inner.isascii() and inner.isprintable()) or "\\" in inner:
        return ""
    value = inner.replace("'", "''")
    return f"'{value}'"


def _keys_of(part: Sequence[_Token]) -> list[tuple[str, str]]:
    """See `Effect.keys`, of a part of an ALTER TABLE."""
    words = [token.word for token in part]
    if len(part) < 3 or words[1] not in {"INDEX", "KEY", "CONSTRAINT"}:
        return []
    names = [t.name.lower() for t in part[2:] if t.word not in {"IF", "EXISTS", "TO"}]
    if words[0] == "DROP":
        return [(names[0], "")] if names else []
    return [(names[0], names[1])] if words[0] == "RENAME" and len(names) > 1 else []


def _like(tokens: Sequence[_Token], database: str) -> Name:
    """Behind the name of a new table: LIKE another, or (LIKE another)."""
    inner = tokens[1:] if tokens and tokens[0].sign == "(" else tokens
    is_like = inner and inner[0].word == "LIKE"
    return _name(inner[1:], database)[0] if is_like else ("", "")


def definition_of(statement: str, quoting: Quoting = BY_DEFAULT) -> tuple[str, ...]:
    """Of CREATE TABLE: what is behind its name, but for texts, the names of constraints
    and the next number that it counts up to."""
    tokens = [one for one in _tokens(statement, quoting) if not one.text]
    words = [one.word or one.name or one.sign for one in tokens]
    words = words[words.index("(") :] if "(" in words else []
    return tuple(
        word
        for n, word in enumerate(words)
        if words[n - 1] != "CONSTRAINT" and words[n - 2 : n] != ["AUTO_INCREMENT", "="]
    )


def _selects(tokens: Sequence[_Token]) -> bool:
    """Whether its rows are computed, maybe by functions that write; of a server that
    logs rows such a statement comes without that."""
    return any(
        token.word == "SELECT" or (token.word == "VALUES" and after.sign == "(")
        for token, after in zip(tokens, [*tokens[1:], _Token()], strict=True)
    )


def _touched(part: Sequence[_Token]) -> frozenset[str] | None:
    """The columns that a part of an ALTER TABLE concerns, in lower case; None = it may
    change values, or it is not known what it does."""
    words = [token.word for token in part[:3]] + ["", "", ""]
    verb, kind = words[:2]
    if verb in {"ADD", "MODIFY"}:
        return None if _cascades(part) else _columns_of(part)
    if verb == "CHANGE":
        named = _behind_column(part)
        is_same = len(named) > 1 and named[0].name == named[1].name != ""
        return _columns_of(part) if is_same and not _cascades(part) else None
    if verb == "ALTER" and kind not in {"INDEX", "KEY", "CONSTRAINT"}:
        return _columns_of(part)
    keeps = (
        (verb == "RENAME" and kind in {"INDEX", "KEY"})
        or (verb == "DROP" and kind in _DROPS)
        or (verb in _KEEPS and _stays_in_innodb(part))
    )
    return frozenset() if keeps else None


def _alters_default(part: Sequence[_Token]) -> bool:
    """ALTER [COLUMN] c SET DEFAULT … or DROP DEFAULT, of a part that alters columns."""
    words = [token.word for token in _behind_column(part)[1:3]]
    return part[0].word == "ALTER" and words in (
        ["SET", "DEFAULT"],
        ["DROP", "DEFAULT"],
    )


def _stays_in_innodb(part: Sequence[_Token]) -> bool:
    """Options of a table may follow each other without a comma."""
    words = [token.word for token in part if token.sign != "="] + [""]
    pairs = pairwise(words)
    return all(engine == "INNODB" for option, engine in pairs if option == "ENGINE")


def _dropped(part: Sequence[_Token]) -> str:
    """The column that a part of an ALTER TABLE drops, in lower case; "" = it does
    something else."""
    others = _DROPS | {"PRIMARY", "PARTITION", "PERIOD", "SYSTEM"}
    if len(part) < 2 or part[0].word != "DROP" or part[1].word in others:
        return ""
    name, *rest = _behind_column(part) or [_Token()]
    is_all = all(token.word in {"RESTRICT", "CASCADE"} for token in rest)
    return name.name.lower() if is_all else ""


def _columns_of(part: Sequence[_Token]) -> frozenset[str]:
    words = [token.word for token in part[:3]] + ["", ""]
    if words[1] in _ADDS or (words[1], words[2]) in _ADDS_BY_TWO:
        # what a primary key has becomes NOT NULL
        is_primary = "PRIMARY" in [token.word for token in part]
        return _names_in(part) if is_primary else frozenset()
    rest = _behind_column(part)
    if rest and rest[0].sign == "(":
        return _names_in(rest)
    return frozenset({_column(rest)} if rest else ())


def _column(tokens: Sequence[_Token]) -> str:
    """The one at the front, in lower case. `t.v` and `db.t.v` are `v`."""
    while len(tokens) > 2 and tokens[1].sign == _DOT:
        tokens = tokens[2:]
    return tokens[0].name.lower()


def _names_in(tokens: Sequence[_Token]) -> frozenset[str]:
    """The first of each part of the brackets."""
    signs = [token.sign for token in tokens]
    first = signs.index("(") if "(" in signs else len(signs)
    depth, inner = 0, list[_Token]()
    for token in tokens[first:]:
        depth += {"(": 1, ")": -1}.get(token.sign, 0)
        if not depth:
            break
        inner.append(token)
    return frozenset(_column(one) for one in _split(inner[1:]) if one)


def _behind_column(part: Sequence[_Token]) -> Sequence[_Token]:
    """Behind ADD [COLUMN] [IF [NOT] EXISTS] and its like."""
    rest = part[1:]
    while rest and rest[0].word in {"COLUMN", "IF", "NOT", "EXISTS"}:
        rest = rest[1:]
    return rest


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
    """The name at the front, and what is behind it. `.t` is `t`."""
    if tokens and tokens[0].sign == _DOT:
        tokens = tokens[1:]
    if len(tokens) > 2 and tokens[1].sign == _DOT:
        return (tokens[0].name, tokens[2].name), tokens[3:]
    return (database, tokens[0].name if tokens else ""), tokens[1:]


def _names(tokens: Sequence[_Token], database: str) -> Iterator[Name]:
    """All that may be one. `.t` is `t`."""
    for n, token in enumerate(tokens):
        if not token.name:
            continue
        yield (_database(tokens[max(n - 2, 0) : n]) or database), token.name


def _database(before: Sequence[_Token]) -> str:
    """Which one is written before a name; "" = none."""
    if len(before) < 2 or before[-1].sign != _DOT:
        return ""
    return "" if before[-2].word in _BEFORE_NAMES else before[-2].name


@cache
def _pattern(quoting: Quoting) -> re.Pattern[str]:
    # a mark that is doubled ends a text, and begins one more
    inside = "[^{0}]" if quoting.is_plain else r"(?:[^{0}\\]|\\.)"
    text = f"{{0}}{inside}*{{0}}"
    texts, names = [text.format("'")], ["`(?:[^`]|``)+`"]
    if quoting.has_names:
        names.append('"(?:[^"]|"")+"')
    else:
        texts.append(text.format('"'))
    found = _TOKEN.format(texts="|".join(texts), names="|".join(names))
    return re.compile(found, re.DOTALL)


def _tokens(statement: str, quoting: Quoting) -> Iterator[_Token]:
    for found in _pattern(quoting).finditer(statement):
        if found["quoted"]:
            mark, inner = found["quoted"][0], found["quoted"][1:-1]
            yield _Token(name=inner.replace(mark * 2, mark))
        elif found["word"]:
            yield _Token(word=found["word"].upper(), name=found["word"])
        elif found["text"]:
            yield _Token(text=found["text"])
        elif found["sign"]:
            yield _Token(sign=found["sign"])
