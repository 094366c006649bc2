"""Protobuf's binary conformance cases through the three Protobuf readers: a message that upb takes is a row of the same
values, and one that it refuses is a dead letter.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.suites.children import ask_in_halves, child
from tests.suites.counted import Counted, Difference
from tests.suites.json_readers import Outcome
from tests.suites.protobuf_cases import LONG_LENGTHS, cases
from tests.suites.protobuf_readers import READERS, Upb, answer
from tests.suites.protobuf_schema import contract

REFUSED = ("InvalidProtobuf", "InvalidVarint", "InvalidUtf8", "TooDeep")
AT_ONCE = 100  # messages in a block
_OF_VALUES = {
    "InvalidEnum": "a number that the enum does not name",
    "NulCharacter": "a string with NUL",
    "NotFinite": "NaN and the infinities",
    "OutOfRange": "a `uint64` or `fixed64` above 2^63 - 1 in an `integer` column",
    "InvalidUtf8": "a `string` of proto2 that is not UTF-8",
}
DIFFERENCES = {name: Difference(what, "protobuf.md", name) for name, what in _OF_VALUES.items()} | {
    "Extension": Difference("extensions in no column", "protobuf.md", "Extensions of proto2"),
    "LongLength": Difference("a length of more than 5 bytes", "protobuf.md", "more than 5 bytes"),
    "MapEntry": Difference(
        "an entry of a map that has unknown fields, which upb drops", "protobuf.md", "Python drops it"
    ),
}
Answers = Sequence[tuple[Upb, dict[str, Outcome]]]


def counted(syntax: str) -> Counted:
    found, named = Counted(f"Protobuf conformance, {syntax}", DIFFERENCES), [*cases().items()]
    with child(answer) as process:
        for at in range(0, len(named), AT_ONCE):
            some = named[at : at + AT_ONCE]
            answers: Answers = ask_in_halves(
                lambda values: process.ask((syntax, values, [*READERS])),
                [raw for _, raw in some],
                lambda _, died: (Upb(refused=False), dict.fromkeys(READERS, f"the process died: {died}")),
            )
            for (name, raw), (wanted, outcomes) in zip(some, answers, strict=True):
                if name in LONG_LENGTHS:
                    wanted.departures.add("LongLength")
                wrong, difference = _ended(syntax, wanted, outcomes)
                found.add(name, wrong and f"{raw[:60].hex()}: {wrong}", difference)
    return found


def _ended(syntax: str, wanted: Upb, found: dict[str, Outcome]) -> tuple[str | None, str | None]:
    """Return what is wrong, if anything, and the documented difference, if there is one."""
    one = found["single"]
    if any(other != one for other in found.values()):
        return str({name: outcome if isinstance(outcome, str) else "a row" for name, outcome in found.items()}), None
    if wanted.refused:
        return (None if one in REFUSED else f"upb refuses it: {one}"), None
    if "LongLength" in wanted.departures:
        return (None if one == "InvalidProtobuf" else f"{one}"), "LongLength"
    if wanted.departures:
        faults = wanted.departures & _OF_VALUES.keys()
        if "MapEntry" in wanted.departures:  # with a number that its enum does not name, it is refused
            faults |= {"InvalidEnum"}
        is_right = one in faults if isinstance(one, str) else wanted.departures <= {"Extension", "MapEntry"}
        return (None if is_right else f"{one} for {wanted.departures}"), one if isinstance(one, str) else min(
            wanted.departures
        )
    if isinstance(one, str):
        return f"upb takes it: {one}", None
    for item, value in zip(contract(syntax).fields, one, strict=True):
        right = wanted.values[item.name]
        got = json.loads(value) if item.type.kind == "json" and value is not None else value
        if item.name == "int32_float":  # json_format writes reals of 32 bits with other digits
            got, right = _narrow(got), _narrow(right)
        if got != _spelt(right):
            return f"{item.name} is {got!r}, and {right!r} for upb", None
    return None, None


def _narrow(reals: Any) -> Any:
    return {key: np.float32(real) for key, real in reals.items()}


def _spelt(value: object) -> object:
    """Return the value in the form of `json_readers.plain`."""
    if isinstance(value, list):
        return [_spelt(item) for item in value]
    return repr(value) if isinstance(value, float) else value


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("syntax", [pytest.param("proto2", marks=pytest.mark.longest), "proto3"])
def test_protobufs_conformance_cases_are_read_by_each_reader_as_upb_reads_them(syntax: str) -> None:
    counted(syntax).check()
