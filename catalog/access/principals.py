"""Users as policy principals. Knows Django's users; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django.contrib.auth.models import Group, User
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet

from catalog.access.policy import Principal
from catalog.models import ApiToken


def users_with_groups() -> QuerySet[User]:
    """Users with `group_names`, so that a principal costs one statement."""
    names = Group.objects.filter(user=OuterRef("pk")).values("name")
    return User.objects.annotate(group_names=ArraySubquery(names))


def group_names_of(row: User | ApiToken) -> list[str]:
    """The annotation of `users_with_groups` and of `tokens.find_token`."""
    return list(cast("Any", row).group_names)


def principal_of(user: User, group_names: Iterable[str] | None = None) -> Principal:
    """The principal of a user row; reads the groups unless they are given."""
    if group_names is None:
        group_names = user.groups.values_list("name", flat=True)
    return Principal(
        name=user.username,
        groups=frozenset(group_names),
        is_admin=user.is_superuser,
        is_active=user.is_active,
    )


def principal_for(username: str) -> Principal:
    """The principal of that name as of now; an unknown one is inactive."""
    user = users_with_groups().filter(username=username).first()
    if user is None:
        return Principal(name=username, is_active=False)
    return principal_of(user, group_names_of(user))
