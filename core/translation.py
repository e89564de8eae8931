"""Renders sentences in the language of the page or the request."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from core.sentences import Sentence


def translated(text: str) -> str:
    """A sentence in the active language; a text that is no message stays as it is."""
    if not text:
        return ""
    if not isinstance(text, Sentence):
        return gettext(text)
    parameters = {
        name: translated(value) if isinstance(value, Sentence) else value
        for name, value in text.parameters.items()
    }
    message = gettext(text.message)
    return message % parameters if parameters else message


def all_translated(data: Any) -> Any:
    """JSON with its sentences in the active language; texts that are none stay."""
    if isinstance(data, Sentence):
        return translated(data)
    if isinstance(data, dict):
        return {name: all_translated(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [all_translated(value) for value in data]
    return data
