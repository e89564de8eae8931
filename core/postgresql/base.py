"""Django's PostgreSQL backend, with a check of health that costs no round trip."""

from __future__ import annotations

import select

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    def is_usable(self) -> bool:
        """Whether a kept connection still serves; asks the server only on a sign.

        A server has nothing to say to a connection at rest. One that went away has:
        its farewell, or the end of the stream.
        """
        link = self.connection
        if link is None or link.closed:
            return False
        line = select.poll()
        line.register(link.pgconn.socket, select.POLLIN)
        return not line.poll(0) or super().is_usable()
