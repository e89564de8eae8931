"""Rules on rows and columns as rows: read them as values, save them, remove them.

Saving and removing bump the policy version and write the audit in one transaction.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import QuerySet

from catalog import extensions
from catalog.access import audit
from catalog.access.enforcement import decision_for
from catalog.access.existence import columns_of, require_columns, require_known
from catalog.access.grants import (
    grants_of,
    parse_grantee,
    parse_securable,
    split_grantee,
)
from catalog.access.policy import Principal, Privilege, Securable
from catalog.access.policy_version import bump_version
from catalog.access.table_rights import (
    EVERYONE,
    HeldRule,
    Limits,
    MaskKind,
    RuleKind,
    limits_of,
)
from catalog.models import AccessRule
from catalog.names import LAKE, join_name, split_name
from core.errors import InvalidRequest, NotFound, StaleState
from core.sentences import Sentence

LONGEST_EXPRESSION = 4_000
# Every statement over a table carries all that bind its user, and every user's rights,
# as an engine keeps them, all of the installation.
MOST_ON_TABLE, MOST_CHARACTERS_ON_TABLE, MOST_RULES = 100, 20_000, 2_000
MOST_NAMED = 200
_TEXT = frozenset({"string"})
_DAYS = frozenset({"date", "timestamp", "timestamp_ntz"})
_TYPES = {
    MaskKind.HASH: _TEXT,
    MaskKind.PARTIAL: _TEXT,
    MaskKind.YEAR: _DAYS,
}

_NO_COLUMN = "'%(name)s' does not name a column"
_NO_TABLE = "'%(name)s' does not name a table"
_NEEDS_EXPRESSION = "this rule needs an expression"
_HAS_NO_EXPRESSION = "this rule has no expression"


def hash_key() -> str:
    """Goes into every hash of a masked value: without it they cannot be looked up."""
    secret = settings.SECRET_KEY.encode()
    return hmac.new(secret, b"sluice mask", hashlib.sha256).hexdigest()[:32]


def all_rules() -> list[HeldRule]:
    """On sources, too. One statement."""
    return [as_value(row) for row in AccessRule.objects.all()]


def rules_of(datasource: str) -> list[HeldRule]:
    """Few beside grants. One statement."""
    return [as_value(row) for row in AccessRule.objects.filter(datasource=datasource)]


def rows_on(on: Securable) -> QuerySet[AccessRule]:
    """Rules on this one table, whomever they bind."""
    named = AccessRule.objects.filter(datasource=on.datasource, database=on.database)
    return named.filter(table=on.table).order_by("id")


def limits_for(principal: Principal, datasource: str = LAKE) -> Limits:
    """What limits the principal on tables of a datasource, now. Two statements."""
    if not principal.is_active:
        return Limits()
    grants = [] if principal.is_admin else grants_of(principal, datasource=datasource)
    return limits_of(principal, grants, rules_of(datasource), hash_key=hash_key())


def reads_whole(principal: Principal, on: Securable) -> bool:
    """Whether no grant and no rule keeps any row or value of a table back: what shows
    values without SQL is for who may see all of them."""
    if not decision_for(principal, Privilege.SELECT, on).allowed:
        return False
    return limits_for(principal, on.datasource).at(on).is_whole


def as_value(row: AccessRule) -> HeldRule:
    return HeldRule(
        on=Securable(row.datasource, row.database, row.table),
        applies_to=frozenset(row.applies_to),
        excepted=frozenset(row.excepted),
        column=row.column,
        mask=row.mask,
        expression=row.expression,
        id=row.pk,
    )


@dataclass(frozen=True, slots=True)
class Stated:
    """A rule as it is asked for. `on`: a table, of a mask one with its column."""

    kind: str
    on: str
    applies_to: Iterable[str]
    excepted: Iterable[str] = ()
    mask: str | None = None
    expression: str | None = None


def save_rule(
    stated: Stated, *, by: str, rule_id: int | None = None, allow_unknown: bool = False
) -> AccessRule:
    """Make a rule, or change the one of that id; it holds for every statement started
    after this returned. StaleState `two_masks` when somebody would be bound by two
    masks of one column; InvalidRequest and NotFound as they say."""
    held = _checked(stated)
    for name in sorted((held.applies_to | held.excepted) - {EVERYONE}):
        parse_grantee(name)
    if not allow_unknown:
        require_known(held.on)
        require_columns(held.on, [held.column] if held.column else [])
    _require_fitting(held)
    extensions.registered.rules(held, by)
    with transaction.atomic():
        bump_version()  # its row is a lock: rules are saved one by one
        row = AccessRule(created_by=by) if rule_id is None else _locked(rule_id)
        stored = replace(held, id=row.pk or 0)
        _require_single(stored)
        _require_room(stored)
        row.datasource, row.database, row.table = held.on.parts
        row.column, row.mask, row.expression = held.column, held.mask, held.expression
        row.applies_to, row.excepted = sorted(held.applies_to), sorted(held.excepted)
        row.save()
        action = "rule.create" if rule_id is None else "rule.update"
        _record(action, row, by)
    return row


def remove_rule(rule_id: int, *, by: str) -> None:
    """What it kept back is open to every statement started after this returned."""
    with transaction.atomic():
        row = _locked(rule_id)
        _record("rule.delete", row, by)
        row.delete()
        bump_version()


def rule_of(rule_id: int) -> AccessRule:
    row = AccessRule.objects.filter(pk=rule_id).first()
    if row is None:
        raise _absent(rule_id)
    return row


def stated_as(row: AccessRule) -> Stated:
    """The request that would make it."""
    return _stated(as_value(row))


def as_document(stated: Stated) -> dict[str, object]:
    """As REST and files of configuration name its members."""
    return {
        "kind": str(stated.kind),
        "on": stated.on,
        "applies_to": sorted(stated.applies_to),
        "except": sorted(stated.excepted),
        "mask": stated.mask,
        "expression": stated.expression,
    }


def as_stated(document: Mapping[str, Any]) -> Stated:
    """The reverse of `as_document`."""
    given = {k: v for k, v in document.items() if k != "except"}
    return Stated(**given, excepted=document.get("except", ()))


def normal_rule(stated: Stated) -> Stated:
    """With names and lists as they are stored; InvalidRequest as for saving, but for
    users that are not there: a file may bring them along."""
    return _stated(_checked(stated))


def _stated(held: HeldRule) -> Stated:
    return Stated(
        held.kind.value,
        join_name(*held.on.parts, held.column),
        sorted(held.applies_to),
        sorted(held.excepted),
        held.mask or None,
        held.expression or None,
    )


def _record(action: str, row: AccessRule, by: str) -> None:
    audit.record(
        action,
        on=row.on,
        actor=by,
        applies_to=row.applies_to,
        excepted=row.excepted,
        mask=row.mask,
        expression=row.expression,
    )


def _locked(rule_id: int) -> AccessRule:
    row = AccessRule.objects.select_for_update().filter(pk=rule_id).first()
    if row is None:
        raise _absent(rule_id)
    return row


def _absent(rule_id: int) -> NotFound:
    return NotFound(
        "there is no rule %(number)s", number=rule_id, code="rule_not_found"
    )


def _checked(stated: Stated) -> HeldRule:
    is_mask = stated.kind == RuleKind.MASK
    if not is_mask and stated.kind != RuleKind.ROW_FILTER:
        unknown = Sentence("'%(name)s' is no kind of rule", name=stated.kind)
        raise _invalid(unknown, _one_of(RuleKind))
    on, column = _place(stated.on, is_mask=is_mask)
    mask, expression = stated.mask or "", (stated.expression or "").strip()
    if is_mask and mask not in set(MaskKind):
        unknown = Sentence("'%(name)s' is no mask", name=mask)
        raise _invalid(unknown, _one_of(MaskKind))
    if not is_mask and mask:
        raise _invalid("a row filter has no mask", Sentence("leave `mask` out"))
    wants_expression = not is_mask or mask == MaskKind.EXPRESSION
    if bool(expression) != wants_expression:
        what = _NEEDS_EXPRESSION if wants_expression else _HAS_NO_EXPRESSION
        raise _invalid(what, "SQL over the table's columns")
    if len(expression) > LONGEST_EXPRESSION or "\0" in expression:
        raise _invalid(
            "an expression has at most %(most)s characters, none is NUL",
            Sentence("shorten it"),
            most=LONGEST_EXPRESSION,
        )
    applies_to, excepted = _people(stated.applies_to), _people(stated.excepted)
    if not applies_to:
        people = '"everyone", "group:bi", "user:ann"'
        raise _invalid(Sentence("`applies_to` is empty"), people)
    return HeldRule(on, applies_to, excepted, column, mask, expression)


def _place(text: str, *, is_mask: bool) -> tuple[Securable, str]:
    parts = split_name(text)
    if len(parts) != (4 if is_mask else 3):
        what = _NO_COLUMN if is_mask else _NO_TABLE
        example = "lake.shop.customers.email" if is_mask else "lake.shop.orders"
        raise _invalid(what, example, name=text)
    on = parse_securable(join_name(*parts[:3]))
    return on, parts[3].lower() if is_mask else ""


def _people(named: Iterable[str]) -> frozenset[str]:
    found = frozenset(named)
    if len(found) > MOST_NAMED:
        over = Sentence("a rule names at most %(most)s", most=MOST_NAMED)
        raise _invalid(over, Sentence("use groups"))
    for name in found - {EVERYONE}:
        split_grantee(name)
    return found


def _require_fitting(rule: HeldRule) -> None:
    """A mask of one kind of type only is for columns of that type."""
    types = _TYPES.get(MaskKind(rule.mask)) if rule.mask else None
    if types is None:
        return
    column = columns_of(rule.on).filter(name=rule.column).first()
    if column is not None and column.type not in types:
        raise _invalid(
            "the mask %(mask)s does not fit the type %(type)s",
            Sentence(
                "it is for %(types)s; redact and null fit all types",
                types=", ".join(sorted(types)),
            ),
            mask=rule.mask,
            type=column.type,
        )


def _require_single(rule: HeldRule) -> None:
    """StaleState when another mask of the column binds somebody whom this one binds."""
    if rule.kind is not RuleKind.MASK:
        return
    others = rows_on(rule.on).exclude(pk=rule.id).filter(column=rule.column)
    held = [as_value(row) for row in others]
    if not held:
        return
    for principal in _anybody():
        for other in held:
            if rule.binds(principal) and other.binds(principal):
                raise StaleState(
                    "rule %(number)s masks %(column)s already for %(principal)s",
                    number=other.id,
                    column=f"{rule.on}.{rule.column}",
                    principal=_called(principal),
                    code="two_masks",
                    hint="except them from one of the two, or change that rule",
                )


def _require_room(rule: HeldRule) -> None:
    """StaleState when there would be more rules, or longer ones, than are accepted."""
    others = rows_on(rule.on).exclude(pk=rule.id)
    texts = list(others.values_list("expression", flat=True))
    characters = sum(map(len, texts)) + len(rule.expression)
    if len(texts) >= MOST_ON_TABLE:
        over = Sentence(
            "%(table)s has %(count)s rules, and %(most)s are accepted",
            table=rule.on,
            count=len(texts),
            most=MOST_ON_TABLE,
        )
    elif characters > MOST_CHARACTERS_ON_TABLE:
        over = Sentence(
            "the expressions of %(table)s would have %(count)s characters together,"
            " and %(most)s are accepted",
            table=rule.on,
            count=characters,
            most=MOST_CHARACTERS_ON_TABLE,
        )
    elif not rule.id and AccessRule.objects.count() >= MOST_RULES:
        over = Sentence(
            "there are %(most)s rules, and no more are accepted", most=MOST_RULES
        )
    else:
        return
    raise StaleState(
        over,
        code="too_many_rules",
        hint="one rule can name several people, and one filter join conditions by AND",
    )


def _anybody() -> Iterable[Principal]:
    """Every user as they are, a member of each group, and somebody without groups."""
    yield Principal("")
    for group in Group.objects.values_list("name", flat=True):
        yield Principal("", frozenset({group}))
    for user in User.objects.prefetch_related("groups"):
        yield Principal(user.username, frozenset(g.name for g in user.groups.all()))


def _called(principal: Principal) -> str:
    if principal.name:
        return f"user:{principal.name}"
    return f"group:{next(iter(principal.groups))}" if principal.groups else EVERYONE


def _one_of(kinds: Iterable[str]) -> Sentence:
    return Sentence("one of: %(names)s", names=", ".join(kinds))


def _invalid(what: str, hint: str, **named: Any) -> InvalidRequest:
    return InvalidRequest(what, **named, code="invalid_rule", hint=hint)
