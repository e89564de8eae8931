"""Measurements: ratios inside one run, JSON out; nothing asserted."""
