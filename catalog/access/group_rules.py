"""What the groups of a directory or identity provider mean here. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from catalog.names import is_principal_name


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Names are compared without regard to case.

    mapping  (name there, name here); empty = every group under its own name
    admins   groups whose members are administrators; empty = decided here
    allowed  groups whose members may log in; empty = all users
    """

    mapping: tuple[tuple[str, str], ...] = ()
    admins: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()

    def read(self, names: Iterable[str]) -> Membership:
        folded = {name.casefold(): name for name in names}
        if self.mapping:
            groups = {here for there, here in self.mapping if there in folded}
        else:
            groups = {name for name in folded.values() if is_principal_name(name)}
        return Membership(
            groups=frozenset(groups),
            is_mapped=bool(self.mapping),
            is_admin=bool(self.admins & folded.keys()) if self.admins else None,
            is_allowed=not self.allowed or bool(self.allowed & folded.keys()),
        )


@dataclass(frozen=True, slots=True)
class Membership:
    """groups     names here
    is_mapped  settings name these groups, so they may be groups that exist already
    is_admin   None = the provider has no say in it
    """

    groups: frozenset[str] = frozenset()
    is_mapped: bool = False
    is_admin: bool | None = None
    is_allowed: bool = True


def rules_from(mapping: str, admins: str, allowed: str) -> GroupRules:
    """From settings: `there=here, …`, and lists of names. ValueError when malformed."""
    pairs = []
    for part in _words(mapping):
        there, sign, here = (piece.strip() for piece in part.rpartition("="))
        if not sign or not there or not is_principal_name(here):
            raise ValueError(f"'{part}' is not <group there>=<group here>")
        pairs.append((there.casefold(), here))
    return GroupRules(tuple(pairs), _folded(admins), _folded(allowed))


def _folded(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _words(text))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
