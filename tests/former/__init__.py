"""A release as it was: its database, lake and source, recorded and restored."""

from __future__ import annotations

from pathlib import Path

RECORDED = Path(__file__).with_name("recorded.tar.xz")
