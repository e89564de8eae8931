"""Hive JDBC 4, as newer tools have it."""

from __future__ import annotations

from _hive_jdbc import run

run()
