"""The lake on an S3-compatible object store: a small client and places on it."""

from __future__ import annotations
