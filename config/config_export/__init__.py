"""Sources, onboardings, policies, users and grants as a YAML text, and back.

Never secrets, never states: what people decided, not what became of it.
"""

from __future__ import annotations
