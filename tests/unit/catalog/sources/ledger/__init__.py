"""A kind of source that exists in tests only: all that a new kind has to bring."""
