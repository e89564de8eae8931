"""A user changes the password that they log in with: known by the former one."""

from __future__ import annotations

from django.contrib.auth.models import User

from catalog.access.authentication import prove
from catalog.access.tokens import PREFIX
from catalog.access.users import change_password
from core.errors import AccessDenied, InvalidRequest


def change_own_password(
    user: User, *, current: str, new: str, keep_tokens: bool, door: str
) -> None:
    """Sessions of the user end, and their tokens unless they are kept.

    A wrong `current` counts as a failed login: whoever finds an open session cannot
    try passwords. InvalidRequest `wrong_password`, StaleState
    when an administrator sets one at the same time, and what `prove` raises besides.
    """
    try:
        # a token proves its user, but not that they know the password
        is_token = current.startswith(PREFIX)
        proven = None if is_token else prove(user.username, current, door=door)
    except AccessDenied as refused:
        if refused.code != "bad_credentials":
            raise
        proven = None
    if proven is None:
        raise InvalidRequest(
            "the current password is another one",
            code="wrong_password",
            hint="an administrator can set a new one",
            facts={
                "errors": [{"pointer": "/current_password", "detail": "not the same"}]
            },
        )
    change_password(proven.row, new, keep_tokens=keep_tokens)
