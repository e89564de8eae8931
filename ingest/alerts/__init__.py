"""Alerts: what happened to a lake table is written down once, told to those who asked
for it, and taken back once when it is over."""

from __future__ import annotations
