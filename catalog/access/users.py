"""Users and groups. A group exists by being named; the name of a deleted user is
never given out again.

Each change bumps the policy version and writes the audit in its own transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from catalog.access import audit
from catalog.access.grants import USER
from catalog.access.policy_version import bump_version
from catalog.access.tokens import end_tokens
from catalog.models import (
    Datasource,
    ExternalIdentity,
    FormerUser,
    Grant,
    Invitation,
    Table,
)
from catalog.names import check_group_name, check_user_name
from core.errors import InvalidRequest, NotFound, StaleState
from core.redaction import remember_secret
from core.sentences import Sentence


@dataclass(frozen=True, slots=True)
class UserChange:
    """What to change; None = leave it as it is.

    keep_tokens: with a new password the user's tokens end, too, unless this is set
    """

    password: str | None = None
    groups: tuple[str, ...] | None = None
    is_admin: bool | None = None
    is_active: bool | None = None
    keep_tokens: bool = False


def create_user(
    name: str,
    password: str | None,
    *,
    groups: Iterable[str] = (),
    is_admin: bool = False,
    by: str,
) -> User:
    """A new active user. InvalidRequest for a taken name or a weak password.

    password: None = no log-in by one until an administrator sets it
    """
    check_user_name(name)
    user = User(username=name, is_superuser=is_admin)
    if password is None:
        user.set_unusable_password()
    else:
        _set_password(user, password)
    try:
        with transaction.atomic():
            require_new_name(name)
            user.save()
            user.groups.set(groups_named(groups))
            bump_version()
            audit.record(
                "user.create",
                on=name,
                actor=by,
                groups=sorted(groups),
                is_admin=is_admin,
            )
    except IntegrityError:
        raise _taken(name) from None
    return user


def delete_user(name: str, *, by: str) -> None:
    """Delete a user with their grants, tokens and saved queries, and end what they run.
    History keeps the name, and nobody gets it again."""
    if name == by:
        raise InvalidRequest(
            "you cannot delete yourself",
            code="own_user",
            hint="another administrator can",
        )
    with transaction.atomic():
        user = locked_user(name)
        was_admin = user.is_superuser and user.is_active
        former = FormerUser(name=name)
        if elsewhere := ExternalIdentity.objects.filter(user=user).first():
            former.provider, former.subject = elsewhere.provider, elsewhere.subject
        former.save(force_insert=True)
        given = Grant.objects.filter(principal_kind=USER, principal_name=name)
        grants, _ = given.delete()
        disown(f"{USER}:{name}")
        user.delete()
        # its row is a lock: two administrators cannot end each other at once
        bump_version()
        if was_admin:
            _require_an_admin()
        audit.record("user.delete", on=name, actor=by, grants=grants)


def locked_user(name: str) -> User:
    user = User.objects.select_for_update().filter(username=name).first()
    if user is None:
        raise NotFound("there is no user '%(name)s'", name=name, code="user_not_found")
    return user


def was_deleted(name: str) -> bool:
    return FormerUser.objects.filter(name__iexact=name).exists()


def disown(owner: str) -> None:
    """Nobody answers any more for what "user:ann" or "group:bi" did."""
    Table.objects.filter(owner=owner).update(owner="")
    rows = Datasource.objects.filter(owner=owner)
    rows.update(owner="", version=F("version") + 1)


def end_invitations(user: User) -> None:
    """Those of who may invite nobody any more: they do not come back with the right."""
    if not (user.is_active and user.is_superuser):
        Invitation.objects.filter(issued_by=user).delete()


def require_new_name(name: str) -> None:
    """ANN beside ann would be read as the same in the audit."""
    if was_deleted(name):
        raise InvalidRequest(
            "a user '%(name)s' was deleted, and history keeps the name",
            name=name,
            code="name_taken",
            hint="choose another name",
        )
    taken = User.objects.filter(username__iexact=name).first()
    if taken is not None:
        raise _taken(taken.username)


def _taken(name: str) -> InvalidRequest:
    return InvalidRequest(
        "there is already a user '%(name)s'",
        name=name,
        code="name_taken",
        hint="capital and small letters are the same in names",
    )


def update_user(name: str, change: UserChange, *, by: str) -> User:
    """Apply a change; deactivation ends sessions, tokens and statements at once."""
    with transaction.atomic():
        user = locked_user(name)
        was_admin, ended = user.is_superuser and user.is_active, 0
        if change.password is not None:
            _require_local(user)
            _set_password(user, change.password)
            ended = 0 if change.keep_tokens else end_tokens(user)
        if change.is_admin is not None:
            user.is_superuser = change.is_admin
        if change.is_active is not None:
            user.is_active = change.is_active
            # decided here from now on: the directory does not undo it
            ExternalIdentity.objects.filter(user=user).update(is_suspended=False)
        user.save()
        end_invitations(user)
        if change.groups is not None:
            user.groups.set(groups_named(change.groups))
        bump_version()  # first, as in delete_user
        if was_admin:
            _require_an_admin()
        audit.record(
            "user.update",
            on=name,
            actor=by,
            groups=None if change.groups is None else sorted(change.groups),
            is_admin=change.is_admin,
            is_active=change.is_active,
            changed_credentials=change.password is not None,
            ended_credentials=ended,
        )
    return user


def change_password(user: User, new: str, *, keep_tokens: bool) -> None:
    """A user's own. Their sessions end. StaleState when `user`, by whose row the caller
    has proven the former one, has another one by now."""
    with transaction.atomic():
        row = User.objects.select_for_update().filter(pk=user.pk).first()
        if row is None or row.password != user.password:
            raise StaleState(
                "the password of '%(name)s' was changed at the same time",
                name=user.username,
                code="password_changed",
                hint="log in with the new one",
            )
        _require_local(row)
        _set_password(row, new)
        row.save(update_fields=["password"])
        audit.record(
            "user.change_password",
            on=row.username,
            actor=row.username,
            ended_credentials=0 if keep_tokens else end_tokens(row),
        )


def ensure_admin(username: str, password: str) -> User:
    """An active administrator of that name with that password; repeatable."""
    check_user_name(username)
    with transaction.atomic():
        rows = User.objects.select_for_update()
        if not rows.filter(username=username).exists():
            require_new_name(username)
        user, _ = rows.get_or_create(username=username)
        is_same = user.is_active and user.is_superuser and user.check_password(password)
        if is_same:
            return user
        user.is_active = user.is_superuser = True
        ExternalIdentity.objects.filter(user=user).delete()  # a local user from now on
        _set_password(user, password)
        user.save()
        bump_version()
        audit.record("user.ensure_admin", on=username, actor="system")
    return user


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        texts = [_weakness(one) for one in error.error_list]
        raise InvalidRequest(
            "the password is too weak",
            code="weak_password",
            # several are told one by one
            hint=texts[0] if len(texts) == 1 else "",
            facts={"errors": [{"pointer": "/password", "detail": t} for t in texts]},
        ) from None
    remember_secret(password)
    user.set_password(password)


def _weakness(error: ValidationError) -> str:
    if error.code == "password_too_short":  # Django has the number in its text already
        least = (error.params or {})["min_length"]
        return Sentence("It needs at least %(least)s characters.", least=least)
    return str(error.messages[0])


def groups_named(names: Iterable[str]) -> QuerySet[Group]:
    """Groups of these names; those that were not there are now."""
    wanted = sorted({check_group_name(name) for name in names})
    Group.objects.bulk_create([Group(name=n) for n in wanted], ignore_conflicts=True)
    return Group.objects.filter(name__in=wanted)


def _require_local(user: User) -> None:
    if ExternalIdentity.objects.filter(user=user).exists():
        raise InvalidRequest(
            "'%(name)s' logs in at the directory or identity provider",
            name=user.username,
            code="external_user",
            hint="change the password there",
        )


def _require_an_admin() -> None:
    """Without any administrator nothing could be undone over REST or UI."""
    if not User.objects.filter(is_superuser=True, is_active=True).exists():
        raise InvalidRequest(
            "this is the last active administrator",
            code="last_admin",
            hint="make another user an administrator first",
        )
