"""Values stored as JSON by one release and read by another.

A member that this release does not know is ignored: a newer release added it, and what
it adds may be left out. A version number above the one that is read means that the
known members mean something else: such a value is refused. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from core.sentences import Sentence, origins_in

T = TypeVar("T")


class TooNew(ValueError):
    """A value of a version above the newest one that this release reads."""

    def __init__(self, version: int, newest: int) -> None:
        super().__init__(
            Sentence(
                "version %(version)s, this release reads versions up to %(newest)s",
                version=version,
                newest=newest,
            )
        )


def encode(value: Any, *, version: int | None = None) -> str:
    """A value as one line of JSON, with its version unless it has that as a member."""
    data = value if version is None else {"v": version, **_builtins(value)}
    return msgspec.json.encode(data, enc_hook=_text).decode()


def decode(kind: type[T], text: str | bytes, *, newest: int) -> T:
    """The reverse. TooNew, or ValueError for what is no JSON or no `kind`."""
    data = msgspec.json.decode(text, type=dict[str, Any])
    return value_of(kind, data, newest=newest)


def as_data(value: Any, origins: dict[str, Any] | None = None) -> Any:
    """A value as JSON holds it: dicts and lists, texts and numbers. What sentences
    were made of is added to `origins`, by their text."""

    def text(found: Any) -> str:
        if origins is not None:
            origins.update(origins_in(found))
        return _text(found)

    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=text))


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=_text)


def _text(value: Any) -> str:
    """A kind of text, such as a `Sentence`, is the text that it is."""
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")


def value_of(kind: type[T], data: Any, *, newest: int | None = None) -> T:
    """A `kind` from decoded JSON. ValueError names a member that is missing or of
    another type; TooNew when its version is above `newest`."""
    if newest is not None:
        _require_version(data, newest)
    try:
        return msgspec.convert(data, kind, str_keys=True)
    except msgspec.ValidationError as error:
        found = str(error).replace(" - at ", " at ")
        raise ValueError(found[0].lower() + found[1:]) from error


def _require_version(data: Mapping[str, Any], newest: int) -> None:
    version = data.get("v")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"its version is {version!r}")
    if version > newest:
        raise TooNew(version, newest)
