"""The error tree. The class tells the way to recovery; no business word here.

SluiceError
├── InvalidRequest      the caller's fault: correct it and send it again
├── NotFound            absent, or not for this caller (the two look the same)
├── AccessDenied        known caller, missing privilege; or unknown caller
├── StaleState          the object was moved by another process: read it again
├── IllegalTransition   the state machine has no such arrow
├── TransientError      try again later, nothing is broken
└── TerminalError       trying again will not help; a person must act
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from core.sentences import Sentence, filled


class SluiceError(Exception):
    """Base of every error that a person or a program outside may see.

    message  what failed, on which object, and the state it is in now
    hint     what to do next (may be empty)
    code     stable machine word, e.g. "table_not_found"
    facts    small JSON-able values for logs and replies; never a secret
    pointer  to the member of a request that is wrong, as the message says
    parameters  what message and hint name, as a `Sentence` takes it
    """

    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str = "",
        facts: Mapping[str, object] | None = None,
        pointer: str | None = None,
        **parameters: object,
    ) -> None:
        self.message = filled(message, parameters)
        super().__init__(self.message)
        self.code = code or self.default_code
        self.hint = filled(hint, parameters)
        self.facts: dict[str, object] = dict(facts or {})
        if pointer is not None:
            self.facts["errors"] = [{"pointer": pointer, "detail": self.message}]

    def __str__(self) -> str:
        return str(self.as_sentence)

    @property
    def as_sentence(self) -> str:
        """Message and hint in one."""
        if not self.hint:
            return self.message
        return Sentence("%(what)s — %(hint)s", what=self.message, hint=self.hint)


def said_by(error: BaseException) -> str:
    """What it says, as a sentence where it is one."""
    if isinstance(error, SluiceError):
        return error.as_sentence
    said = error.args[0] if error.args else ""
    return said if isinstance(said, Sentence) else str(error)


class InvalidRequest(SluiceError):
    default_code = "invalid_request"


class NotFound(SluiceError):
    default_code = "not_found"


class AccessDenied(SluiceError):
    default_code = "access_denied"


class StaleState(SluiceError):
    default_code = "stale_state"


class IllegalTransition(SluiceError):
    default_code = "illegal_transition"


class TransientError(SluiceError):
    default_code = "transient"


class TerminalError(SluiceError):
    default_code = "terminal"
