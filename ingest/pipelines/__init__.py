"""Onboarded tables: from a request to a plan, to a table that follows its source."""
