"""How MariaDB and MySQL is tested and discovered."""

from __future__ import annotations

from catalog.sources.mariadb.discover import MariadbReader
from catalog.sources.mariadb.probe import MariadbSteps
from catalog.sources.port import Discoverer

DISCOVERER = Discoverer(reader=MariadbReader, steps=MariadbSteps)
