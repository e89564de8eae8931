"""The style sheets of a page."""

from __future__ import annotations

from django.contrib.staticfiles.storage import staticfiles_storage
from django.template import Library
from django.templatetags.static import static
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from frontend.static_files import BUNDLE, STYLES

register = Library()


@register.simple_tag
def style_sheets() -> SafeString:
    """One link where static files were collected, else one for each."""
    is_collected = getattr(staticfiles_storage, "has", lambda _: False)(BUNDLE)
    names = [BUNDLE] if is_collected else STYLES
    link = '<link rel="stylesheet" href="{}">\n'
    return format_html_join("", link, ((static(name),) for name in names))
