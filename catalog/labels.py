"""Who answers for a table, and the words that it is found by. Neither gives a right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db import transaction

from catalog.access import audit
from catalog.access.grants import GROUP, parse_grantee
from catalog.models import Table
from core.errors import InvalidRequest
from core.sentences import Sentence

MOST_TAGS = 20
_TAG = re.compile(r"[^\s,\x00-\x1f\x7f-\x9f]{1,50}")


@dataclass(frozen=True, slots=True)
class Labels:
    """What to change; None = leave it as it is. owner: "" = nobody. `tags` take the
    place of those there are; `added` and `removed` change these."""

    owner: str | None = None
    tags: Sequence[str] | None = None
    added: Sequence[str] = ()
    removed: Sequence[str] = ()


def label_tables(ids: Iterable[int], labels: Labels, *, by: str) -> int:
    """Set owner and tags of all these tables, or of none of them; how many there are.

    InvalidRequest for an owner who is not there, and for words that are no tags.
    """
    with transaction.atomic():
        found = lock_tables(ids)
        label_locked(found, labels, by=by)
    return len(found)


def label_locked(found: Sequence[Table], labels: Labels, *, by: str) -> None:
    """The same for rows of `lock_tables`, in its transaction."""
    owner = None if labels.owner is None else check_owner(labels.owner)
    tags = None if labels.tags is None else check_tags(labels.tags)
    added, removed = check_tags(labels.added), set(labels.removed)
    for table in found:
        kept = [tag for tag in table.tags if tag not in removed]
        table.tags = check_tags([*kept, *added] if tags is None else tags)
        table.owner = table.owner if owner is None else owner
    Table.objects.bulk_update(found, ["owner", "tags"])
    audit.append(
        [
            audit.entry(
                "table.label",
                on=f"{table.database}.{table.name}",
                actor=by,
                owner=table.owner,
                tags=table.tags,
            )
            for table in found
        ]
    )


def lock_tables(ids: Iterable[int]) -> list[Table]:
    """Their rows, which nobody else changes until the transaction ends."""
    rows = Table.objects.select_for_update(of=("self",)).filter(pk__in=list(ids))
    return list(rows.select_related("database__datasource").order_by("pk"))


def check_owner(text: str) -> str:
    """ "user:ann" or "group:bi" of one that is there; "" is nobody."""
    text = text.strip()
    if not text:
        return ""
    kind, name = parse_grantee(text)
    if kind == GROUP and not Group.objects.filter(name=name).exists():
        raise InvalidRequest(
            "there is no group '%(name)s'",
            name=name,
            code="unknown_group",
            hint="the owner is a user or a group: user:ann, group:bi",
        )
    return text


def check_tags(words: Iterable[str]) -> list[str]:
    """In lower case, each once, sorted."""
    tags = sorted({word.strip().lower() for word in words if word.strip()})
    wrong = next((tag for tag in tags if not _TAG.fullmatch(tag)), None)
    if wrong is not None or len(tags) > MOST_TAGS:
        raise InvalidRequest(
            Sentence("'%(tag)s' cannot be a tag", tag=wrong[:60])
            if wrong
            else Sentence("%(count)s tags", count=len(tags)),
            code="invalid_tag",
            hint=Sentence(
                "at most %(most)s tags of 1 to 50 characters without spaces",
                most=MOST_TAGS,
            ),
        )
    return tags
