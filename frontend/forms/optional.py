"""A form that may be sent as empty as it came."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms


class OptionalForm(forms.Form):
    """needed: the fields that have to be filled in; all others may be left empty."""

    needed: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            field.required = field.widget.is_required = name in self.needed
