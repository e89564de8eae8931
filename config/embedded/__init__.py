"""PostgreSQL and Redis from Python wheels: the defaults of one machine, and of tests.

They know nothing of Django. Production points to servers of its own instead.
"""

from __future__ import annotations

from config.embedded.postgres import EmbeddedPostgres
from config.embedded.redis import EmbeddedRedis

__all__ = ["EmbeddedPostgres", "EmbeddedRedis"]
