"""The state table of a connection's negotiation."""

from __future__ import annotations

from core.states import Transitions, fan

FRESH, STARTED, JUDGING, OPEN, CLOSED = (
    "FRESH",
    "STARTED",
    "JUDGING",
    "OPEN",
    "CLOSED",
)
NEGOTIATING = frozenset({FRESH, STARTED, JUDGING})

NEGOTIATION = Transitions(
    name="Connection",
    initial=FRESH,
    arrows={
        (FRESH, "start"): STARTED,
        (STARTED, "respond"): JUDGING,
        (JUDGING, "accept"): OPEN,
        (JUDGING, "refuse"): CLOSED,
        **fan((FRESH, STARTED, JUDGING, OPEN), "close", CLOSED),
    },
    terminal=frozenset({CLOSED}),
    why={
        "start": "the peer named the mechanism PLAIN",
        "respond": "the peer sent user name and password",
        "accept": "the login was right; messages follow",
        "refuse": "the login was wrong; the socket is closed",
        "close": "the socket ended or the peer broke the protocol",
    },
)
