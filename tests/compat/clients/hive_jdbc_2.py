"""Hive JDBC 2.3.9, as beeline and DBeaver have it."""

from __future__ import annotations

from _hive_jdbc import run

run()
