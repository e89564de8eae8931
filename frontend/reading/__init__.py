"""What pages show, gathered from the selectors of catalog, ingest and gateway.

Shapes rows for templates; decides nothing and changes nothing.
"""

from __future__ import annotations
