"""Words that look-ups by half-remembered names go through."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models


class SearchTerm(models.Model):
    """A column name, or a word out of table names or comments, that occurs here.

    Millions of columns share few names, so a fuzzy search reads this small table and
    goes on with what it found. Triggers fill it (migrations 0004 and 0006). Rows are
    hints: they may be there twice, and stay when the last column of that name goes.
    """

    COLUMN, WORD, COMMENT = "column", "word", "comment"

    of = models.CharField(max_length=10)
    text = models.TextField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["of", "text"], name="search_term"),
            GinIndex(OpClass("text", name="gin_trgm_ops"), name="search_term_trigram"),
        ]

    def __str__(self) -> str:
        return self.text
