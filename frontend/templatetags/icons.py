"""`{% icon "check" %}`: small outline icons, drawn inline. Knows no page."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

# 24 by 24, stroke only; decorative, so hidden from screen readers.
# ruff: noqa: E501
PATHS = {
    "sluice": '<path d="M4 3v18M20 3v18M4 7h16M9 7v7h6V7M4 18c2 0 2-1.5 4-1.5s2 1.5 4'
    ' 1.5 2-1.5 4-1.5 2 1.5 4 1.5"/>',
    "menu": '<path d="M4 7h16M4 12h16M4 17h16"/>',
    "home": '<path d="M3 11l9-7 9 7v9h-6v-6H9v6H3z"/>',
    "source": '<ellipse cx="12" cy="5.5" rx="8" ry="3"/><path d="M4 5.5v13c0 1.7 3.6 3 8'
    ' 3s8-1.3 8-3v-13M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3"/>',
    "table": '<rect x="3" y="4" width="18" height="16" rx="2"/>'
    '<path d="M3 9.5h18M3 14.5h18M9.5 9.5V20"/>',
    "job": '<path d="M4 6h10M4 12h16M4 18h7"/><circle cx="18" cy="6" r="2"/>'
    '<circle cx="15" cy="18" r="2"/>',
    "sql": '<path d="M4 17l5-5-5-5M12 18h8"/>',
    "user": '<circle cx="12" cy="8" r="4"/><path d="M4 21c.8-4 4-6 8-6s7.2 2 8 6"/>',
    "group": '<circle cx="9" cy="8" r="3.5"/><path d="M2.5 20c.6-3.6 3.2-5.5 6.5-5.5s5.9'
    ' 1.9 6.5 5.5M16 5a3.5 3.5 0 010 6.6M18 15c2 .8 3.1 2.5 3.5 5"/>',
    "key": '<circle cx="8" cy="15" r="4.5"/><path d="M11.5 11.5L20 3M16 7l3 3"/>',
    "token": '<rect x="3" y="6" width="18" height="12" rx="2"/>'
    '<path d="M7 12h.01M12 12h.01M17 12h.01"/>',
    "audit": '<path d="M6 3h9l4 4v14H6zM14 3v5h5M9 13h6M9 17h6"/>',
    "system": '<path d="M3 12h4l3-8 4 16 3-8h4"/>',
    "search": '<circle cx="11" cy="11" r="6.5"/><path d="M16 16l5 5"/>',
    "sun": '<circle cx="12" cy="12" r="4"/><path d="M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2'
    ' 2M17 17l2 2M19 5l-2 2M7 17l-2 2"/>',
    "help": '<circle cx="12" cy="12" r="9"/><path d="M9.5 9.5a2.5 2.5 0 114 2c-1 .7-1.5'
    ' 1.2-1.5 2.3M12 17h.01"/>',
    "logout": '<path d="M14 4H5v16h9M10 12h11M17.5 8.5L21 12l-3.5 3.5"/>',
    "check": '<path d="M4.5 12.5l5 5 10-11"/>',
    "cross": '<path d="M6 6l12 12M18 6L6 18"/>',
    "warn": '<path d="M12 4L2.5 20h19zM12 10v4.5M12 17.5h.01"/>',
    "info": '<circle cx="12" cy="12" r="9"/><path d="M12 11v5.5M12 7.5h.01"/>',
    "wait": '<circle cx="12" cy="12" r="9"/><path d="M12 7v5.5l3.5 2"/>',
    "move": '<path d="M12 3a9 9 0 109 9"/>',
    "pause": '<path d="M8 5v14M16 5v14"/>',
    "stop": '<rect x="6" y="6" width="12" height="12" rx="1.5"/>',
    "play": '<path d="M7 4.5l12 7.5-12 7.5z"/>',
    "dash": '<path d="M6 12h12"/>',
    "unknown": '<path d="M8.5 9a3.5 3.5 0 115.5 2.8c-1.3 1-2 1.6-2 3.2M12 19h.01"/>',
    "plus": '<path d="M12 5v14M5 12h14"/>',
    "copy": '<rect x="8" y="8" width="12" height="12" rx="2"/>'
    '<path d="M16 8V5a1 1 0 00-1-1H5a1 1 0 00-1 1v10a1 1 0 001 1h3"/>',
    "next": '<path d="M9 5l7 7-7 7"/>',
    "back": '<path d="M15 5l-7 7 7 7"/>',
    "arrow": '<path d="M4 12h15M13.5 6.5L19 12l-5.5 5.5"/>',
    "refresh": '<path d="M20 11a8 8 0 00-14.5-3.5L4 9M4 4v5h5M4 13a8 8 0 0014.5'
    ' 3.5L20 15M20 20v-5h-5"/>',
    "trash": '<path d="M4 7h16M9 7V4h6v3M6.5 7l1 13h9l1-13"/>',
    "compact": '<path d="M4 12h16M12 3v6M9 6.5L12 9l3-2.5M12 21v-6M9 17.5l3-2.5 3 2.5"/>',
    "flow": '<path d="M3 6h6c4 0 2 12 6 12h6M18 15l3 3-3 3M3 18h4M15 6h6"/>',
    "plug": '<path d="M9 3v5M15 3v5M6 8h12v3a6 6 0 01-12 0zM12 17v4"/>',
    "download": '<path d="M12 4v11M7.5 11L12 15.5 16.5 11M5 20h14"/>',
    "chart": '<path d="M4 20h16M7 20v-7M12 20V6M17 20v-10"/>',
    "globe": '<circle cx="12" cy="12" r="9"/><path d="M3 12h18M12 3c-5 5.5-5 12.5 0 18'
    ' 5-5.5 5-12.5 0-18"/>',
    "lock": '<rect x="5" y="11" width="14" height="10" rx="2"/>'
    '<path d="M8 11V8a4 4 0 018 0v3"/>',
}


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """The icon as an <svg>; an unknown name is an empty drawing."""
    return format_html(
        '<svg class="icon {}" viewBox="0 0 24 24" aria-hidden="true">{}</svg>',
        extra,
        mark_safe(PATHS.get(name, "")),
    )
