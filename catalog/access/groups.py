"""Groups: who belongs to one, and its end. A group exists by being named."""

from __future__ import annotations

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet

from catalog.access import audit
from catalog.access.grants import GROUP
from catalog.access.policy_version import bump_version
from catalog.access.users import UserChange, disown, locked_user, update_user
from catalog.models import AccessRule, DirectoryGroup, Grant
from core.errors import InvalidRequest, NotFound


def group_named(name: str, among: QuerySet[Group] | None = None) -> Group:
    """among: all groups, with what else is read of them."""
    row = (Group.objects if among is None else among).filter(name=name).first()
    if row is None:
        raise NotFound(
            "there is no group '%(name)s'", name=name, code="group_not_found"
        )
    return row


def rules_naming(principal: str) -> list[AccessRule]:
    """Rules that bind that user or group, or except it."""
    one = [principal]
    rows = AccessRule.objects.filter(applies_to__contains=one)
    return list(
        (rows | AccessRule.objects.filter(excepted__contains=one)).order_by("id")
    )


def change_member(group: Group, name: str, *, is_member: bool, by: str) -> None:
    """Add a user to the group, or take them out; holds for every statement from now
    on."""
    with transaction.atomic():
        user = locked_user(name)
        names = set(user.groups.values_list("name", flat=True)) - {group.name}
        wanted = {*names, group.name} if is_member else names
        update_user(name, UserChange(groups=tuple(sorted(wanted))), by=by)


def delete_group(name: str, *, by: str) -> None:
    """Delete a group with the grants to it; members stay users.

    InvalidRequest for a group of a directory, which comes back with the next login,
    and for one that rules name: without it a rule would bind others than it says.
    """
    with transaction.atomic():
        bump_version()  # its row is a lock: no rule comes to name the group meanwhile
        group = group_named(name)
        if DirectoryGroup.objects.filter(group=group).exists():
            raise InvalidRequest(
                "'%(name)s' is a group of the directory or identity provider",
                name=name,
                code="external_group",
                hint="remove it there; its grants can be revoked here",
            )
        if rules := rules_naming(f"{GROUP}:{name}"):
            raise InvalidRequest(
                "rules name the group '%(name)s'",
                count=len(rules),
                first=rules[0],
                name=name,
                code="group_in_rules",
                hint="change or remove them first (%(count)s): %(first)s",
            )
        given = Grant.objects.filter(principal_kind=GROUP, principal_name=name)
        grants, _ = given.delete()
        disown(f"{GROUP}:{name}")
        members = group.user_set.count()
        group.delete()
        audit.record("group.delete", on=name, actor=by, grants=grants, members=members)
