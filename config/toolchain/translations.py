"""`make messages`: brings the catalogues up to date with what pages show.

New messages come without a translation, messages that no page shows leave. Django reads
the compiled catalogue, which lies beside its text, so no set-up needs gettext.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import django

from config.toolchain.checks import throw_away_keys

LOCALE = Path(__file__).resolve().parents[2] / "frontend" / "locale"
UNDATED = datetime(2026, 1, 1, tzinfo=UTC)


def update(folder: Path) -> int:
    """Rewrite and compile one language's catalogue; how many lack a translation."""
    from babel.messages.catalog import Catalog
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po, write_po

    from frontend.messages import messages

    text = folder / "LC_MESSAGES" / "django.po"
    with text.open("rb") as file:
        former = read_po(file, locale=folder.name)
    catalog = Catalog(
        locale=folder.name,
        project="Sluice",
        version="1",
        creation_date=UNDATED,  # a run that changes nothing writes the same bytes
        revision_date=UNDATED,
        fuzzy=False,
        header_comment=f"# {folder.name} of Sluice; docs/glossary.md has the terms",
    )
    for message, places in sorted(messages().items(), key=lambda one: one[0].text):
        kept = former.get(message.text)
        catalog.add(
            (message.text, message.plural) if message.plural else message.text,
            kept.string if kept and bool(message.plural) == kept.pluralizable else "",
            locations=[(place, None) for place in places],  # type: ignore[misc]
        )
    with text.open("wb") as file:
        write_po(file, catalog, width=100, omit_header=False)
    with text.with_suffix(".mo").open("wb") as file:
        write_mo(file, catalog)
    return sum(1 for one in catalog if one.id and not _is_translated(one.string))


def _is_translated(string: object) -> bool:
    return all(string) if isinstance(string, tuple | list) else bool(string)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    for name, value in throw_away_keys().items():
        os.environ.setdefault(name, value)
    django.setup()
    for folder in sorted(LOCALE.iterdir()):
        lacking = update(folder)
        sys.stdout.write(f"{folder.name}: {lacking} messages lack a translation\n")
