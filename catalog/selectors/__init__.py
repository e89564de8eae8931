"""Look-ups of the catalog, filtered by what the caller may see, in few statements.

`<noun>_for(principal)` for people, `lake_*` for the gateway. Never loads a list to
filter it in Python.
"""
