"""How MariaDB and MySQL is tested and discovered."""

from __future__ import annotations

from catalog.sources.discoverers import Discoverer
from catalog.sources.mariadb.discover import MariadbReader
from catalog.sources.mariadb.probe import MariadbSteps

DISCOVERER = Discoverer(reader=MariadbReader, steps=MariadbSteps)
