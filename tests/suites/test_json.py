"""JSONTestSuite, and its numbers in other spellings against every type of number, through the three JSON readers.

Each document is read as a message, under a key that the contract does not know, in a json column and in an array of
strings; the item of an array of one is also read by columns of every type. RFC 8259 defines JSON;
docs/reference/json.md defines which JSON is a value of which type.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from tests.suites.children import Child, DiedError, ask_in_halves, child
from tests.suites.counted import Counted, Difference
from tests.suites.json_readers import READERS, Columns, Outcome, answer, json_value, plain
from tests.suites.json_test_suite import documents

REFUSED = ("InvalidJson", "InvalidUtf8", "EmptyValue", "TooDeep")  # as no JSON
OF_A_TEXT = ("NulCharacter", "InvalidUnicode")
DIFFERENCES = {
    "NotAnObject": Difference("a message that is no object", "json.md", "NotAnObject"),
    "DuplicateKey": Difference("a key twice in an object of a `json` column", "json.md", "DuplicateKey"),
    "NulCharacter": Difference("a text with `\\u0000`", "json.md", "NulCharacter"),
    "InvalidUnicode": Difference("half a surrogate pair", "json.md", "InvalidUnicode"),
}
TYPES = (
    "string",
    "integer",
    "double",
    "boolean",
    "decimal(38,10)",
    "json",
    "date",
    "timestamp",
    "uuid",
    "time",
    "bytes",
)
AT_ONCE = 100  # messages in a request


@dataclass(frozen=True)
class Case:
    """A message and its right outcome."""

    name: str
    columns: Columns
    value: bytes
    right: Outcome | None  # None: the readers must agree, whatever it is
    refusals: Sequence[str] = ()  # classes of faults, one of which is right
    documented: Sequence[str] = ()  # classes of faults that are documented instead of `right`

    def ended(self, found: dict[str, Outcome]) -> tuple[str | None, str | None]:
        """Return what is wrong, if anything, and the documented difference, if there is one."""
        one = found["single"]
        if any(other != one for other in found.values()):
            return f"{self.value[:80]!r} {dict(self.columns)}: {found}", None
        if one in self.documented:
            return None, str(one)
        is_right = one in self.refusals if self.refusals else self.right is None or one == self.right
        return (
            None if is_right else f"{self.value[:80]!r} {dict(self.columns)}: {one}, not {self.right or self.refusals}"
        ), None


def counted(suite: str, cases: Iterator[Case]) -> Counted:
    """Return the results of every case, read in a child process."""
    found = Counted(suite, DIFFERENCES)
    by_contract = dict[Columns, list[Case]]()
    for case in cases:
        by_contract.setdefault(case.columns, []).append(case)
    with child(answer) as process:
        for columns, same in by_contract.items():
            for some in (same[at : at + AT_ONCE] for at in range(0, len(same), AT_ONCE)):
                outcomes = ask_in_halves(
                    lambda part, of=columns: process.ask((of, [case.value for case in part], [*READERS])),
                    some,
                    lambda case, _, of=columns: {name: _alone(process, of, case, name) for name in READERS},
                )
                for case, outcome in zip(some, outcomes, strict=True):
                    found.add(case.name, *case.ended(outcome))
    return found


def _alone(process: Child, columns: Columns, case: Case, name: str) -> Outcome:
    try:
        return process.ask((columns, [case.value], [name]))[0][name]
    except DiedError as died:
        return f"the process died: {died}"


def of_documents() -> Iterator[Case]:
    """Yield each document of the suite, in each place where a message may have it."""
    for name, text in documents().items():
        yield _whole(name, text)
        yield from _inside(name, text)
        inner = text.strip()[1:-1]
        if text.strip()[:1] == b"[" and text.strip()[-1:] == b"]" and (name[0] != "y" or len(json.loads(text)) == 1):
            yield from (_as_type(name, inner, of) for of in TYPES)


def _whole(name: str, text: bytes) -> Case:
    columns = (("v", "json"),)
    if name[0] != "y":
        return Case(name, columns, text, None, REFUSED if name[0] == "n" else ())
    return Case(name, columns, text, (None,), (), ("NotAnObject",) if not isinstance(json.loads(text), dict) else ())


def _inside(name: str, text: bytes) -> Iterator[Case]:
    refusals = REFUSED if name[0] == "n" else ()
    right = (None,) if name[0] == "y" else None
    yield Case(f"{name} in a key that no column reads", (("v", "string"),), b'{"x":' + text + b"}", right, refusals)
    found = json.loads(text) if name[0] == "y" else None
    documented = ("DuplicateKey", *OF_A_TEXT) if found is not None else ()
    value = (text,) if name[0] == "y" else None
    yield JsonCase(f"{name} as json", (("v", "json"),), b'{"v":' + text + b"}", value, refusals, documented)
    is_array = isinstance(found, list) and all(isinstance(item, str) for item in found)
    yield Case(
        f"{name} as array<string>",
        (("v", "array<string>"),),
        b'{"v":' + text + b"}",
        (found,) if is_array else (None,) if name[0] == "y" and found is None else None,
        refusals,
        OF_A_TEXT,
    )


@dataclass(frozen=True)
class JsonCase(Case):
    """A case with a json column: `right` is the message's text, and the row must mean the same."""

    def ended(self, found: dict[str, Outcome]) -> tuple[str | None, str | None]:
        wrong, difference = Case.ended(Case(*self._but_for_right()), found)
        one = found["single"]
        if wrong or difference or not isinstance(self.right, tuple) or self.refusals:
            return wrong, difference
        wanted = json_value(self.right[0].decode())
        same = not isinstance(one, str) and (json_value(one[0]) if one[0] is not None else None) == wanted
        return (None if same else f"{self.value[:80]!r}: {one}"), None

    def _but_for_right(self) -> tuple[Any, ...]:
        return (self.name, self.columns, self.value, None, self.refusals, self.documented)


def _as_type(name: str, inner: bytes, of: str) -> Case:
    """Return a case with the items of the document's array in a column of this type."""
    value, columns = b'{"v":' + inner + b"}", (("v", of),)
    if name[0] != "y":
        return Case(f"{name} as {of}", columns, value, None, REFUSED if name[0] == "n" else ())
    raw = json.loads(inner, parse_int=Number, parse_float=Number)
    if of == "json":
        return JsonCase(f"{name}, its item as json", columns, value, (inner,), (), ("DuplicateKey", *OF_A_TEXT))
    return Case(f"{name} as {of}", columns, value, expected(raw, of), (), OF_A_TEXT)


class Number(str):
    """A number as it is written."""

    __slots__ = ()


_OWN_TEXT = ("date", "timestamp", "uuid", "time", "bytes")  # the suite has no values of these


def expected(raw: Any, of: str) -> Outcome | None:
    """Return the row or fault that docs/reference/json.md promises; None for a text of the type's own kind."""
    if raw is None:
        return (None,)
    if of.startswith("decimal"):
        return decimal_of(raw, *map(int, re.findall(r"\d+", of))) if isinstance(raw, str) else "WrongType"
    if isinstance(raw, Number):
        return _number_of(raw, of)
    if of in _OWN_TEXT and isinstance(raw, str):
        return None
    return (raw,) if isinstance(raw, {"string": str, "boolean": bool}.get(of, ())) else "WrongType"


def _number_of(raw: str, of: str) -> Outcome:
    if of == "double":
        found = float(raw)
        return "OutOfRange" if found in (float("inf"), float("-inf")) else (repr(found),)
    if of == "integer" and re.fullmatch(r"-?\d+", raw):
        return (int(raw),) if -(2**63) <= int(raw) < 2**63 else "OutOfRange"
    return "WrongType"


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def decimal_of(raw: str, precision: int, scale: int) -> Outcome:
    """Return the exact value, never rounded, zero whatever its exponent is; or the class of its fault."""
    if not _DECIMAL.fullmatch(raw):
        return "WrongType"
    mantissa, _, exponent = raw.lower().partition("e")
    value = Decimal(mantissa)
    if not value:
        return ("0",)
    if len(exponent.lstrip("+-0")) > 15:
        return "TooManyDecimals" if exponent.startswith("-") else "OutOfRange"
    _, digits, below = value.as_tuple()
    while digits[-1] == 0:
        digits, below = digits[:-1], int(below) + 1
    below = int(below) + int(exponent or 0)
    if len(digits) + below > precision - scale and value.adjusted() + int(exponent or 0) + 1 > precision - scale:
        return "OutOfRange"
    return (plain(Decimal(raw)),) if below >= -scale else "TooManyDecimals"


SIGNS = ("", "-", "+")
EXPONENTS = (
    *("", "e0", "E+1", "e-1", "e7", "e-9", "e+00037", "e37", "e-37", "e39", "e-39", "e-230", "e308", "e309", "e-400"),
    *("e10000000", "e-10000000", "e99999999", "e-99999999", f"e{'9' * 30}", f"e-{'9' * 30}"),
    *("e", "e+", "e+-1", "e-+39", "e0x1", "e1.5"),
)
LENGTHS = ("{}", "{}" + "0" * 30, "0" * 9 + "{}" + "9" * 38)  # of the digits before the point
DECIMALS = ("decimal(5,0)", "decimal(6,2)", "decimal(18,18)", "decimal(38,0)", "decimal(38,10)", "decimal(38,38)")
TYPES_OF_NUMBERS = (*DECIMALS, "integer", "double")
EVERY_DECIMAL = tuple(f"decimal({precision},{scale})" for precision in range(1, 39) for scale in range(precision + 1))
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def numbers() -> list[str]:
    """Return the numbers of the suite's documents, right or wrong."""
    texts = [text for name, text in documents().items() if "number" in name and text.isascii()]
    return sorted({text.decode().strip()[1:-1].strip() for text in texts if text[:1] == b"["})


def spellings() -> list[str]:
    """Return the numbers with other signs, lengths and exponents."""
    found = set(numbers())
    for number in numbers():
        if not (parts := re.fullmatch(r"-?([0-9]+)(\.[0-9]+)?(?:[eE].*)?", number)):
            continue
        whole, fraction = parts[1][:40], parts[2] or ""
        for sign, length, exponent, more in product(SIGNS, LENGTHS, EXPONENTS, ("", "0" * 39 + "1")):
            found.add(f"{sign}{length.format(whole)}{(fraction or '.') + more if more else fraction}{exponent}")
    return sorted(found)


def of_numbers(every: int) -> Iterator[Case]:
    """Yield the suite's own numbers against each type; every spelling, or one of so many, against one of them, and
    every decimal type against dozens of spellings.
    """
    pairs = [*product(numbers(), TYPES_OF_NUMBERS)]
    for place, number in enumerate(spellings()[::every]):
        pairs += [(number, EVERY_DECIMAL[place * 37 % len(EVERY_DECIMAL)])]
        pairs += [(number, TYPES_OF_NUMBERS[place % len(TYPES_OF_NUMBERS)])]
    for number, of in dict.fromkeys(pairs):
        columns = (("v", of),)
        bare, refusals = f'{{"v":{number}}}'.encode(), () if _NUMBER.fullmatch(number) else REFUSED
        yield Case(f"{number} as {of}", columns, bare, None if refusals else expected(Number(number), of), refusals)
        if of.startswith("decimal"):
            quoted = f'{{"v":{json.dumps(number, ensure_ascii=False)}}}'.encode()
            yield Case(f'"{number}" as {of}', columns, quoted, expected(number, of))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_json_test_suite_is_read_by_each_reader_as_it_says() -> None:
    found = counted("JSONTestSuite", of_documents())
    assert {name[0] for name in documents()} == {"y", "n", "i"}
    assert len(documents()) == 318
    found.check()


@pytest.mark.slow
@pytest.mark.parametrize("every", [96, pytest.param(1, marks=[pytest.mark.longest, pytest.mark.timeout(1_800)])])
def test_the_suites_numbers_are_exact_or_refused_in_every_spelling_and_type(every: int) -> None:
    found = counted("JSONTestSuite's numbers, respelled", of_numbers(every))
    assert found.faults == []
    if every == 1:
        found.check()  # the page has the totals of all of them
