"""The numbers of a Protobuf message's fields: which are missing, and which come next. None is ever used twice.

A field's own number is its fieldNumber; its pathNumbers are the numbers of the messages around it, outermost first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath
from platform_defs.schemas.conversion.tree import Member, members_of

RESERVED = range(19_000, 20_000)  # https://protobuf.dev/programming-guides/proto3/#assigning


@dataclass(frozen=True)
class Assigned:
    """The numbers assigned to a field."""

    field: str  # its name
    number: int
    path_numbers: tuple[int, ...]


def number_of(member: Member) -> int | None:
    """Return the field's number from the contract's fields; None if none gives it."""
    return next(filter(None, (_number_at(item, len(member.path)) for item in _fields(member))), None)


def missing_numbers(contract: Contract) -> list[str]:
    """Return the fields of the contract that lack a number, their own or one on their path."""
    return [item.name for item in contract.fields if not _is_whole(item)]


def assign(contract: Contract, known: Mapping[MessagePath, int], used: Iterable[int] = ()) -> list[Assigned]:
    """Return numbers for the fields that lack any, in the contract's order: the path's in `known` (of a registered
    schema), else the next that neither the contract, nor a known path, nor `used` has. `used`: numbers of any message.
    """
    everywhere = {*used, *RESERVED}
    numbers = dict[MessagePath, int]()
    for members in _levels(members_of(contract)):
        here = members[0].path[:-1]
        taken = {number for path, number in known.items() if path[:-1] == here} | everywhere
        taken |= {found for member in members if (found := number_of(member))}
        for member in members:
            numbers[member.path] = number_of(member) or known.get(member.path) or _next(taken)
            taken.add(numbers[member.path])
    found = list[Assigned]()
    for item in contract.fields:
        if not _is_whole(item):
            *above, own = (numbers[item.path[:depth]] for depth in range(1, len(item.path) + 1))
            found.append(Assigned(item.name, own, tuple(above)))
    return found


def _is_whole(item: Field) -> bool:
    return item.number is not None and len(item.path_numbers) == len(item.path) - 1


def _number_at(item: Field, depth: int) -> int | None:
    """Return the number that a field gives the message or value at this depth of its path; None if it gives none."""
    if depth == len(item.path):
        return item.number
    return item.path_numbers[depth - 1] if depth <= len(item.path_numbers) else None


def _fields(member: Member) -> Iterator[Field]:
    if member.field:
        yield member.field
    for inner in member.members:
        yield from _fields(inner)


def _levels(members: tuple[Member, ...]) -> Iterator[tuple[Member, ...]]:
    """Yield the message's members, then the members of each message in it."""
    yield members
    for member in members:
        if member.members:
            yield from _levels(member.members)


def _next(taken: set[int]) -> int:
    """Return the number above the highest, so that a removed field's number stays unused; the first is 1."""
    number = max((one for one in taken if one not in RESERVED), default=0) + 1
    return number if number not in RESERVED else RESERVED.stop
