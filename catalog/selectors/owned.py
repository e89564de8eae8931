"""A table together with the owner of the token that asks for it, in one statement.

Nothing is remembered between two calls: who owns the token and what he may see is read
where the table is read, so a revocation holds for the next call.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db.models import JSONField
from django.db.models.expressions import RawSQL

from catalog.access.authentication import AuthenticatedUser
from catalog.access.policy import Privilege, granting
from catalog.access.tokens import is_proven_by, parts_of
from catalog.compiled import CompiledValues
from catalog.selectors.facts import TableFacts, facts_of
from catalog.selectors.lookups import GRANTED, Where, filtered, kind_of

# Nobody for a token that was not used for a minute: `find_token` notes its use.
_MAY_SEE = GRANTED.format(name="u.username", groups="his.groups")
_OWNER = f"""(SELECT json_build_object('id', u.id, 'name', u.username,
  'is_admin', u.is_superuser, 'groups', his.groups, 'token_id', k.id,
  'digest', k.digest)
 FROM catalog_apitoken k JOIN auth_user u ON u.id = k.user_id
 CROSS JOIN LATERAL (SELECT ARRAY(SELECT name FROM auth_group JOIN auth_user_groups m
   ON m.group_id = auth_group.id WHERE m.user_id = u.id)::text[] AS groups) his
 WHERE k.key_id = %s AND u.is_active AND (k.expires_at IS NULL OR k.expires_at > now())
 AND k.last_used_at > now() - interval '1 minute'
 AND (u.is_superuser OR {_MAY_SEE}))::text"""
_KEY = "\x01key"
_Found = tuple[AuthenticatedUser, TableFacts]


def owned_facts(token: str, where: Where) -> _Found | None:
    """The token's owner and the table there; None when there is no such table, or not
    for him, or when the token is not good.
    """
    key_id, secret = parts_of(token)
    found = _lookup(kind_of(where)).first(*where, key_id) if key_id else None
    if found is None:
        return None
    owner, facts = found
    if owner is None or not is_proven_by(secret, owner.pop("digest")):
        return None
    groups = frozenset(owner.pop("groups"))
    return AuthenticatedUser(**owner, groups=groups), facts


@cache
def _lookup(by: str) -> CompiledValues[tuple[dict[str, Any] | None, TableFacts]]:
    rows, given = filtered(by, is_checked=False)
    held = sorted(granting(Privilege.DISCOVER))
    rows = rows.annotate(owner_read=RawSQL(_OWNER, [_KEY, held], JSONField()))
    return CompiledValues(
        facts_of(rows, "owner_read"),
        (*given, _KEY),
        lambda *row: (row[-1], TableFacts(*row[:-1])),
    )
