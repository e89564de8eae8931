"""Starts, watches and ends the processes of one machine's Sluice.

It knows commands and ports, never Django: it must come up when the settings or the
database are what is broken.
"""

from __future__ import annotations
