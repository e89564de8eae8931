"""A sentence for people that keeps what it was made of, so that pages can translate it.

Its text is English: programs, logs and REST use it as any text. Beside it are the
message of gettext's catalogue and the parameters. Pure; `core.translation` renders.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Stands in a stored text between the English and what it was made of.
_BESIDE = "\x1e"


class Sentence(str):
    """`Sentence("%(table)s is paused", table="demo.orders")`.

    The message is a constant, as it stands in the catalogue. A parameter that is a
    sentence is translated, too; every other one is shown as it is. Whoever cuts or
    joins a sentence as text gets text.
    """

    message: str
    parameters: Mapping[str, Any]

    def __new__(cls, message: str, **parameters: Any) -> Sentence:
        text = message % parameters if parameters else message
        made = super().__new__(cls, text)
        made.message, made.parameters = message, parameters
        return made

    @property
    def origin(self) -> list[Any]:
        """Message and parameters as JSON; a parameter that is a sentence is a list."""
        shown = {
            name: value.origin if isinstance(value, Sentence) else str(value)
            for name, value in self.parameters.items()
        }
        return [self.message, shown]


def sentence_from(origin: Any) -> Sentence:
    """The reverse of `origin`. ValueError for what is none."""
    try:
        message, parameters = origin
        return Sentence(
            str(message),
            **{
                name: sentence_from(value) if isinstance(value, list) else str(value)
                for name, value in parameters.items()
            },
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no origin of a sentence: {error}") from error


def says(text: str, *messages: str) -> bool:
    """Whether it was made of one of these messages, whatever its parameters."""
    return isinstance(text, Sentence) and text.message in messages


def as_sentence(text: str) -> Sentence:
    """A text that may be a message without parameters."""
    return text if isinstance(text, Sentence) else Sentence(text)


def filled(text: str, parameters: Mapping[str, object]) -> Sentence:
    """The sentence of a message and those of the parameters that it names."""
    named = {name: parameters[name] for name in parameters if f"%({name})" in text}
    return Sentence(text, **named) if named else as_sentence(text)


NEXT = Sentence("%(first)s; %(then)s")
STOP = Sentence("%(first)s. %(then)s")
AND = Sentence("%(first)s, %(then)s")
COLON = Sentence("%(first)s: %(then)s")
# of sentences with their full stops
THEN = Sentence("%(first)s %(then)s")


def replaced_in(text: str, old: str, new: str) -> str:
    """With another text for one that stands in its parameters."""
    if not isinstance(text, Sentence) or not text.parameters:
        return text.replace(old, new)

    def told(value: Any) -> Any:
        if isinstance(value, Sentence):
            return replaced_in(value, old, new)
        return new if str(value) == old else str(value).replace(old, new)

    shown = {name: told(value) for name, value in text.parameters.items()}
    return Sentence(text.message, **shown)


def joined(parts: Iterable[str], by: str = NEXT) -> str:
    """Sentences one after the other, as one; "" of none."""
    first, *others = [part for part in parts if part] or [""]
    for part in others:
        first = Sentence(by, first=as_sentence(first), then=as_sentence(part))
    return first


def stored(text: str) -> str:
    """The text as a column keeps it: what it was made of stands behind the English."""
    plain = str(text).replace(_BESIDE, " ")
    if not isinstance(text, Sentence) or not text.parameters:
        return plain
    origin = json.dumps(text.origin, ensure_ascii=False, sort_keys=True)
    return f"{plain}{_BESIDE}{origin}"


def stored_id(message: str) -> str:
    """What the column of a sentence contains that was made of this message and has
    parameters."""
    return f"[{json.dumps(message, ensure_ascii=False)}, "


def restored(text: str) -> str:
    """The reverse of `stored`; of a text that was cut, what is left of the English."""
    english, _, origin = text.partition(_BESIDE)
    return _same_text(english, json.loads, origin) if origin else english


def origins_in(value: Any, *, all_of_them: bool = False) -> dict[str, Any]:
    """What the sentences within dicts and lists were made of, by their text; those
    without parameters, which their text tells, only when asked for."""
    if isinstance(value, Sentence):
        is_told = value.parameters or all_of_them
        return {str(value): value.origin} if is_told else {}
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, Sequence) or isinstance(value, str):
        return {}
    found: dict[str, Any] = {}
    for each in value:
        found |= origins_in(each, all_of_them=all_of_them)
    return found


def sentence_of(text: str, origins: Mapping[str, Any] | None) -> str:
    """The sentence with this text, where `origins_in` found one."""
    origin = (origins or {}).get(text)
    return _same_text(text, lambda found: found, origin) if origin else text


def with_sentences(data: Mapping[str, Any]) -> dict[str, Any]:
    """JSON with its sentences, of which the member `sentences` has the origins."""
    origins = data.get("sentences") or {}

    def told(value: Any) -> Any:
        if isinstance(value, str):
            return sentence_of(value, origins)
        if isinstance(value, list):
            return [told(each) for each in value]
        if isinstance(value, dict):
            return {name: told(each) for name, each in value.items()}
        return value

    return {name: told(each) for name, each in data.items() if name != "sentences"}


def without_origins(data: Mapping[str, Any]) -> dict[str, Any]:
    """JSON with its English texts only, as REST shows it."""
    return {name: told for name, told in data.items() if name != "sentences"}


def _same_text(text: str, read: Any, origin: Any) -> str:
    """A stored origin counts as long as it still makes this text."""
    try:
        made = sentence_from(read(origin))
    except ValueError:
        return text
    return made if made == text else text
