"""Reading sources: one folder a kind, each behind the same ports."""
