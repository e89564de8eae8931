"""The port through which a kind of source is tested and discovered.

Each kind's folder has a module `discoverer` with its `DISCOVERER`. It is imported by
name, when it is needed, because the registry is pure and a client of a database is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from catalog.sources.access import SourceAccess
from catalog.sources.port import SourceReader
from catalog.sources.registry import kind_named
from catalog.sources.steps import Steps


@dataclass(frozen=True, slots=True)
class Discoverer:
    """reader  reads the source's own catalog; steps  of a connection test"""

    reader: Callable[[SourceAccess], SourceReader]
    steps: Callable[[SourceAccess, contextlib.ExitStack], Steps]


def discoverer_of(kind: str) -> Discoverer:
    """InvalidRequest for a kind that is unknown or of a later release."""
    module = import_module(f"{kind_named(kind).folder}.discoverer")
    found: Discoverer = module.DISCOVERER
    return found
