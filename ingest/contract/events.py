"""Columns of a file of changes that were merged from a log. Pure.

A change is written beside its row: what happened to it, and its `_sluice_seq`.
"""

from __future__ import annotations

OP, INDEX = "op", "i"
