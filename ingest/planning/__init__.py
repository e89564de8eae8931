"""Pure planning: facts about tables in, values that say what will happen out."""

from __future__ import annotations
