"""The parts Sluice is built from: Python packages, jars, our own Java.

Everything here uses the standard library only, so that it runs before anything is
installed. It must not know Django.
"""

from __future__ import annotations
