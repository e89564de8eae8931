"""One user never has all threads of the web process at work.

Whatever a request waits for (the database, an object store, the gateway), only so many
of one user wait. The next is refused at once: waiting would take a thread.
"""

from __future__ import annotations

import sys
from typing import ClassVar

from catalog.api.stream_limit import Place, Places
from core.errors import TransientError

# Streams and downloads go on behind the request, within limits of their own.
MOST_OF_ONE_USER = 8
RETRY_SECONDS = 1
PLACES = Places(most=sys.maxsize, most_each=MOST_OF_ONE_USER)


class TooManyRequests(TransientError):
    """So many requests of this user are worked on; nothing was begun."""

    default_code: ClassVar[str] = "too_many_requests"


def take_place(user: str) -> Place:
    """A place, to be given back when the reply is made."""
    place = PLACES.take(user)
    if place is None:
        raise TooManyRequests(
            "%(count)s requests of %(user)s are worked on already",
            count=MOST_OF_ONE_USER,
            user=user,
            hint="send the next one when one of them is answered",
            facts={"retry_after_seconds": RETRY_SECONDS},
        )
    return place
