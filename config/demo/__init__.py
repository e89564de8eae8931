"""The demo: a small shop that keeps selling, and the main job walked over it.

It reaches Sluice as a user does, over REST and HiveServer2, and knows none of its code.
"""

from __future__ import annotations
