"""Static files as the web process serves them: collected once when it starts.

Each has a name with a hash of its content, so browsers keep it for good, and a
compressed copy beside it. Where nothing was collected, as in tests, files have their
plain names and WhiteNoise finds them in the packages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.contrib.staticfiles.finders import find
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.files.base import ContentFile
from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage

# In the order of the cascade. One request brings them all.
STYLES = tuple(
    f"frontend/css/{name}.css"
    for name in ("tokens", "base", "parts", "forms", "data", "pages", "charts", "sql")
)
BUNDLE = "frontend/css/all.css"
# Of packages; no page asks for them.
UNUSED = [
    "rest_framework", "redoc", "*.map", "swagger-ui-es-*", "oauth2-redirect.*",
    "htmax-*", "htmx-4*", "htmx-2.js", "ext", "django-htmx.js", "*-preset.js",
    "LICENSE", "*.txt", "SHA256SUMS", "README.md",
]  # fmt: skip
log = logging.getLogger("sluice.web")


_IMPORTS = (
    (r'(?P<matched>\bfrom "(?P<url>\./[^"]+)")', 'from "%(url)s"'),
    (r'(?P<matched>\bimport "(?P<url>\./[^"]+)")', 'import "%(url)s"'),
)


class HashedFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Names with hashes, as far as files were collected."""

    manifest_strict = False
    # what refers to another file by its name: our modules alone
    patterns = (("frontend/js/*.js", _IMPORTS),)

    def stored_name(self, name: str) -> str:
        return str(self.hashed_files.get(self.hash_key(self.clean_name(name)), name))

    def has(self, name: str) -> bool:
        return name in self.hashed_files

    def post_process(self, paths: dict[str, Any], **options: Any) -> Iterator[Any]:
        self._save(BUNDLE, ContentFile(_bundle().encode()))
        yield from super().post_process(paths | {BUNDLE: (self, BUNDLE)}, **options)


def collect() -> None:
    """Into the home, anew. Pages work without it: a full disk is no reason to end."""
    try:
        # one that a kill cut short could not be read, which would end the process
        (Path(settings.STATIC_ROOT) / HashedFiles.manifest_name).unlink(missing_ok=True)
        call_command(
            "collectstatic", interactive=False, clear=True, verbosity=0,
            ignore_patterns=UNUSED,
        )  # fmt: skip
    except OSError as error:
        log.warning("collectstatic: %s", error)
        cast("HashedFiles", staticfiles_storage).hashed_files = {}


def _bundle() -> str:
    found = (find(name) for name in STYLES)
    return "\n".join(Path(str(path)).read_text() for path in found)
