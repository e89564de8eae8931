"""Keeping lake tables well: facts of their files, a score that explains itself, plans
that are shown before they run, and repairs as jobs."""

from __future__ import annotations
