"""Columns of a sealed file of changes. Pure.

A change is written beside its row: what happened to it, and its place among the changes
of the epoch, from 1. No capture writes such files yet.
"""

from __future__ import annotations

from typing import Literal

Op = Literal["insert", "update", "delete"]
OP, INDEX = "op", "i"
