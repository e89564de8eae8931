"""How passwords are stored: Argon2id, which costs a guesser memory as well as time.

OWASP's second setting for it (Password Storage Cheat Sheet): 19 MiB, two passes, one
lane. A login takes a tenth of the processor's time that PBKDF2 of the same strength
takes, so that wrong ones stop nobody.
"""

from __future__ import annotations

from django.contrib.auth.hashers import Argon2PasswordHasher


class PasswordHash(Argon2PasswordHasher):
    """Argon2id with these settings."""

    time_cost = 2
    memory_cost = 19_456  # KiB
    parallelism = 1
