"""Which session settings a client may change, and to what: the one list of them.

The gateway holds OpenSession and the URL against it, each engine SET and every session
that it has; it is told the list in its start file. Pure. Patterns are read by Python
and by Java, and match whole texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.sentences import Sentence

LONGEST_VALUE = 200
_SWITCH = "(?i:true|false)"
_OR_ELSE = "true or false"


@dataclass(frozen=True, slots=True)
class Rule:
    """Keys and values are patterns; `words` say which values there are."""

    keys: str
    values: str
    words: str

    def takes(self, value: str) -> bool:
        is_short = len(value) <= LONGEST_VALUE
        return is_short and re.fullmatch(self.values, value) is not None


RULES: Sequence[Rule] = (
    Rule(r"spark\.sql\.session\.timeZone", r"[A-Za-z0-9_+:/-]{1,64}", "a time zone"),
    # more tasks than that only cost the engine memory, at local speed
    Rule(
        r"spark\.sql\.shuffle\.partitions",
        "[1-9][0-9]{0,2}",
        Sentence("between 1 and 999"),
    ),
    Rule(r"spark\.sql\.ansi\.enabled", _SWITCH, _OR_ELSE),
    Rule(r"spark\.sql\.adaptive\.enabled", _SWITCH, _OR_ELSE),
    Rule(r"spark\.sql\.crossJoin\.enabled", _SWITCH, _OR_ELSE),
    # a result collected at once would have to fit into the heap of the shared engine
    Rule(r"spark\.sql\.thriftServer\.incrementalCollect", "(?i:true)", "true"),
    Rule(
        r"spark\.sql\.thriftServer\.queryTimeout", "[0-9]{1,6}s?", Sentence("seconds")
    ),
    Rule(r"sluice\.compat", "hive|pyhive|spark", "hive, pyhive or spark"),
    # the gateway's own sessions have pages of Arrow there
    Rule(r"sluice\.results", "rows", "rows"),
    Rule(r"sluice\.hide_meta_columns", _SWITCH, _OR_ELSE),
    Rule(
        r"sluice\.[a-z0-9_.]{1,40}",
        rf"[^\x00-\x1f]{{0,{LONGEST_VALUE}}}",
        Sentence("at most %(most)s characters", most=LONGEST_VALUE),
    ),
)


def rule_for(key: str) -> Rule | None:
    """The rule of a key; None for one that may not be changed."""
    if len(key) > LONGEST_VALUE:
        return None
    return next((rule for rule in RULES if re.fullmatch(rule.keys, key)), None)


def names() -> list[str]:
    """The keys as people write them."""
    plain = [rule.keys.replace("\\", "") for rule in RULES[:-1]]
    return sorted([*plain, "sluice.*"])
