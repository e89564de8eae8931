"""How a rule's expression is tried before it is saved: as a statement that an engine
refuses where it could not bind the rule. Pure."""

from __future__ import annotations

import re

from catalog.access.table_rights import HeldRule, RuleKind
from catalog.names import LAKE

# Texts, quoted names and comments; and how a query begins within an expression.
_LITERALS = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/""",
    re.DOTALL,
)
_QUERY = re.compile(
    r"\(\s*(?:(?:select|with|from)\b|(?:table|values)\s+[\w'(])", re.IGNORECASE
)
_ONE = "(SELECT 1 AS `_sluice_one`) AS `_sluice_one`"
# What an engine says of the statement and not of the expression.
_OF_THE_TRIAL = re.compile(
    r"`_sluice_one`\.`_sluice_one`, |(?:, )?`_sluice_one`\.`_sluice_one`(?=\])"
    r"|`spark_catalog`\.|;? ?\(?line \d+,? pos \d+\)?|\s*== SQL.*",
    re.DOTALL,
)


def has_query(expression: str) -> bool:
    """Whether it has a sub-query, which a rule over one row cannot have."""
    return _QUERY.search(_LITERALS.sub("''", expression)) is not None


def about_expression(message: str) -> str:
    """Why an engine refused a trial, by the names that people give to its table."""
    return _OF_THE_TRIAL.sub("", message)


def trial_of(rule: HeldRule) -> str:
    """As the condition of a join, which refuses what is not of one row, or is another
    value each time. It stands there twice, so that it ends in neither place what
    stands around it; the end of its line ends a comment in it."""
    parts = [part.replace("`", "``") for part in rule.on.parts]
    if rule.on.datasource == LAKE:
        parts = parts[1:]
    table, value = ".".join(f"`{part}`" for part in parts), f"\n{rule.expression}\n"
    condition = f"({value}) AND CASE WHEN{value}THEN true END"
    if rule.kind is not RuleKind.ROW_FILTER:
        condition = f"({value}) IS NULL AND CASE 1 WHEN 1 THEN{value}END IS NULL"
    return f"EXPLAIN SELECT 1 FROM {table} JOIN {_ONE} ON {condition}"
