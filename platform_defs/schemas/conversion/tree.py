"""A contract's message as a tree: its fields by their paths, as records within records."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.errors import BadInput

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Member:
    """A field of the message, or of a record in it. With `members` it is a record itself."""

    path: MessagePath
    field: Field | None  # that reads it; None: only its members are read
    members: tuple["Member", ...] = ()

    @property
    def name(self) -> str:
        return self.path[-1]

    @cached_property
    def required(self) -> bool:
        """True if messages must have it: a record must if one of its members must."""
        return bool(self.field and self.field.required) or any(member.required for member in self.members)

    @property
    def description(self) -> str:
        return self.field.description if self.field else ""

    @property
    def aliases(self) -> list[str]:
        """Other names of the field in the same record."""
        given = self.field.aliases if self.field else ()
        return [path[-1] for path in given if path[:-1] == self.path[:-1]]


def members_of(contract: Contract) -> tuple[Member, ...]:
    """Return the message's fields, in the contract's order. Raises BadInput for a name that schemas do not allow."""
    for item in contract.fields:
        for name in item.path:
            if not _NAME.fullmatch(name):
                raise BadInput(
                    f"{name!r} is not a valid field name in a schema: use letters, digits and _ only",
                    file=str(contract.path) if contract.path else None,
                    field=item.name,
                )
    return _within((), contract.fields)


def tree_of(contract: Contract) -> tuple[Member, ...]:
    """Return the fields as `members_of` does, with any names: any text is a key of JSON."""
    return _within((), contract.fields)


def record_name(contract: Contract) -> str:
    """Return the full name of the message: the contract's record, or one made from its domain and its id."""
    if contract.wire.record:
        return contract.wire.record
    own = contract.pipeline.removeprefix(f"{contract.domain}_")
    return f"{contract.domain}.{camel_case([own])}"


def camel_case(names: Sequence[str]) -> str:
    """Return the name of a record on that path: `CustomerAddress` for customer, address."""
    words = [word for name in names for word in name.split("_") if word]
    return "".join(word[0].upper() + word[1:] for word in words) or "Message"


def unique(name: str, is_taken: Callable[[str], bool], separator: str = "") -> str:
    """Return `name`, or with the first number after it that is free."""
    number, found = 1, name
    while is_taken(found):
        number += 1
        found = f"{name}{separator}{number}"
    return found


def _within(path: MessagePath, fields: Sequence[Field]) -> tuple[Member, ...]:
    depth = len(path)
    names = dict.fromkeys(item.path[depth] for item in fields if len(item.path) > depth)
    found = list[Member]()
    for name in names:
        here = (*path, name)
        there = [item for item in fields if item.path[: depth + 1] == here]
        found.append(Member(here, next((item for item in there if item.path == here), None), _within(here, there)))
    return tuple(found)
