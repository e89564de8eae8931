"""Renders sentences in the language of the page or the request."""

from __future__ import annotations

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
