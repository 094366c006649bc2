"""Messages made up from a contract: its examples, enums and limits are all that is asked for, so any pipeline has them.

A field called *_id gets a value of its own in every message (in an upsert, one of a few keys). Bad messages are good
ones with one thing wrong, and verify's judge says beforehand which reason a dead letter of each must give.
"""

import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from platform_defs.contract.model import Contract, Field
from platform_defs.errors import BadInput
from platform_defs.verification.judge import Judge, NoRow

POOL = 1_000  # different values of a field in one block of messages
TOMBSTONES = 0.02  # of an upsert's messages
NULLS = 0.2  # of a field that need not be there
WORDS = [
    "ada",
    "amber",
    "anchor",
    "basin",
    "blaise",
    "canal",
    "delta",
    "dora",
    "emil",
    "estuary",
    "ferry",
    "grace",
    "harbour",
    "ida",
    "jetty",
    "lagoon",
    "lena",
    "lock",
    "maria",
    "mole",
    "noor",
    "otto",
    "pier",
    "quay",
    "reef",
    "rosa",
    "sluice",
    "tide",
    "weir",
]


@dataclass(frozen=True, slots=True)
class Sample:
    """A message to produce. `reason` is what its dead letter must say; None for a good one."""

    key: bytes | None
    value: bytes | None
    reason: str | None = None


class Samples:
    """Makes messages of one contract; the same `seed` makes the same ones, but for ids and times."""

    def __init__(self, contract: Contract, seed: int | None = None) -> None:
        self._contract, self._judge = contract, Judge(contract)
        self._random = random.Random(seed)  # noqa: S311 made-up data
        self._judges = {item.name: Judge(replace(contract, fields=(item,))) for item in contract.fields}
        self._number = time.time_ns() // 1_000
        self._keyed = contract.row_table.disposition == "upsert"
        self._id = next((item for item in contract.fields if item.name.endswith("_id")), None)
        self._pools = {item.name: self._pool(item) for item in contract.fields if item is not self._id}
        self._template = b"{" + b",".join(b"%s:%%b" % _json(item.name) for item in contract.fields) + b"}"
        self._spare = next(sample for sample in self.good(100) if sample.value is not None)
        self._faults = self._find_faults()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The kinds of bad messages there are for this contract, in the order in which `bad` takes them."""
        return tuple(reason for reason, _ in self._faults)

    def good(self, count: int) -> Iterator[Sample]:
        """`count` messages that keep the contract (an upsert's tombstones among them)."""
        for start in range(0, count, POOL):
            size = min(POOL, count - start)
            ids = self._ids(size)
            columns = [ids if item is self._id else self._column(item, size) for item in self._contract.fields]
            values = (self._template % row for row in zip(*columns, strict=True))
            if self._keyed:
                yield from map(self._upsert, ids, values)
            else:
                yield from (Sample(None, value) for value in values)

    def bad(self, number: int, good: Sample) -> Sample:
        """`good` with one thing wrong; ascending numbers take the kinds in turn."""
        reason, spoil = self._faults[number % len(self._faults)]
        return spoil(good if good.value is not None else self._spare, reason)

    def _upsert(self, key: bytes, value: bytes) -> Sample:
        return Sample(key.strip(b'"'), None if self._random.random() < TOMBSTONES else value)

    def _ids(self, size: int) -> list[bytes]:
        if self._id is None:
            return [str(n).encode() for n in range(self._number, self._number + size)]
        numbers = range(self._number, self._number + size)
        self._number += size
        if self._keyed:
            numbers = (self._random.randrange(10 * POOL) for _ in numbers)
        return [_json(_identifier(self._id, number)) for number in numbers]

    def _column(self, item: Field, size: int) -> list[bytes]:
        if item.type.name == "timestamp":
            self._pools[item.name] = self._pool(item)  # now is later than it was
        return self._random.choices(self._pools[item.name], k=size)

    def _pool(self, item: Field) -> list[bytes]:
        """JSON texts of values that keep the field's rules. Raises BadInput where nothing shows what they look like."""
        made = (self._value(item) for _ in range(POOL if item.type.name != "timestamp" else 100))
        found = [_json(value) for value in made if self._keeps(item, value)]
        if not found:
            raise BadInput(
                f"no value that keeps the rules of {item.name} could be made up; give it examples",
                file=str(self._contract.path),
                field=item.name,
            )
        nulls = 0 if item.required else int(len(found) * NULLS)
        return [*found[nulls:], *[b"null"] * nulls]

    def _keeps(self, item: Field, value: Any) -> bool:
        return not isinstance(self._judges[item.name].value(b"{%s:%s}" % (_json(item.name), _json(value))), NoRow)

    def _value(self, item: Field) -> Any:
        enum = next((rule.argument for rule in item.rules if rule.kind == "enum"), None)
        if enum:
            return self._random.choice(enum)
        return self._maker(item)(item)

    def _maker(self, item: Field) -> Callable[[Field], Any]:
        if pa.types.is_decimal(item.type.arrow):
            return self._decimal
        return {
            "string": self._text,
            "integer": self._integer,
            "double": self._double,
            "boolean": self._boolean,
            "date": self._date,
            "timestamp": self._timestamp,
        }[item.type.name]

    def _text(self, item: Field) -> str:
        if item.examples:
            return self._like(item, str(self._random.choice(item.examples)))
        longest = next((rule.argument for rule in item.rules if rule.kind == "max_length"), 40)
        return " ".join(self._random.choices(WORDS, k=self._random.randint(1, 3)))[:longest]

    def _like(self, item: Field, example: str) -> str:
        """A variation of an example: other digits, or another first word, or a word more."""
        digit = lambda _: str(self._random.randrange(10))  # noqa: E731
        word = self._random.choice(WORDS)
        for changed in (re.sub(r"\d", digit, example), re.sub(r"^[a-z]+", word, example), example + word):
            if changed != example and self._keeps(item, changed):
                return changed
        return example

    def _number_like(self, item: Field) -> float:
        """Around an example if there is one, else between the limits; small ones are more usual than large ones."""
        low = float(next((rule.argument for rule in item.rules if rule.kind == "minimum"), 0))
        high = float(next((rule.argument for rule in item.rules if rule.kind == "maximum"), max(low, 0) + 1_000))
        if item.examples:
            return min(high, max(low, float(self._random.choice(item.examples)) * math.exp(self._random.gauss(0, 1.5))))
        return low + (high - low) * self._random.random() ** 3

    def _decimal(self, item: Field) -> str:
        return f"{self._number_like(item):.{item.type.arrow.scale}f}"

    def _integer(self, item: Field) -> int:
        return round(self._number_like(item))

    def _double(self, item: Field) -> float:
        return self._number_like(item)

    def _boolean(self, _item: Field) -> bool:
        return self._random.random() < 0.5

    def _date(self, item: Field) -> str:
        today = datetime.now(UTC).date()
        low: date = next((rule.argument for rule in item.rules if rule.kind == "minimum"), today - timedelta(3_650))
        return str(low + timedelta(self._random.randrange(max(1, (today - low).days))))

    def _timestamp(self, _item: Field) -> str:
        at = datetime.now(UTC) - timedelta(seconds=self._random.random() * 5)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _find_faults(self) -> list[tuple[str, Callable[[Sample, str], Sample]]]:
        """Each way to spoil a message that works on this contract, one for each reason."""
        found: dict[str, Callable[[Sample, str], Sample]] = {}
        for spoil in _ways(self._contract):
            judged = self._judge.value(spoil(self._spare, "").value)
            if isinstance(judged, NoRow):
                found.setdefault(judged.reason, spoil)
        return list(found.items())


def _ways(contract: Contract) -> Iterator[Callable[[Sample, str], Sample]]:
    """Ways to spoil a good message."""
    yield _bytes(lambda value: value[: len(value) // 2])
    yield _bytes(lambda _: b"")
    yield _bytes(lambda value: value.replace(b'"', b'"\xff', 1))
    for item in contract.fields:
        yield _field(item.name, {"not": "this"})
        if item.required:
            yield _field(item.name)
        for value in _wrong_values(item):
            yield _field(item.name, value)


def _wrong_values(item: Field) -> Iterator[Any]:
    """Values that may break the field's type or rules; which of them do is for the judge to say."""
    if item.type.name == "string":
        yield from ("\0", "?")
    if item.type.name in ("date", "timestamp"):
        yield "2026-02-30" + ("T10:00:00Z" if item.type.name == "timestamp" else "")
    if pa.types.is_decimal(item.type.arrow):
        yield "1." + "0" * item.type.arrow.scale + "1"
    for rule in item.rules:
        if rule.kind == "max_length":
            yield "x" * (rule.argument + 1)
        if rule.kind in ("minimum", "maximum") and isinstance(rule.argument, int | float | Decimal):
            away = rule.argument + (-1 if rule.kind == "minimum" else 1)
            yield str(away) if isinstance(away, Decimal) else away


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Sample, str], Sample]:
    return lambda good, reason: Sample(good.key, change(good.value or b""), reason)


_NOTHING = object()


def _field(name: str, value: Any = _NOTHING) -> Callable[[Sample, str], Sample]:
    """Give the field another value, or take it away."""

    def spoil(good: Sample, reason: str) -> Sample:
        fields = json.loads(good.value or b"{}")
        fields.pop(name, None)
        return Sample(good.key, _json(fields if value is _NOTHING else {**fields, name: value}), reason)

    return spoil


def _identifier(item: Field, number: int) -> str:
    """An id that holds `number`, in the shape of the field's pattern or example."""
    pattern = next((rule.argument for rule in item.rules if rule.kind == "pattern"), "")
    shaped = re.fullmatch(r"([\w-]*)(?:\[0-9\]|\\d)\{(\d+)(?:,(\d+))?\}", pattern)
    if shaped:
        least, most = int(shaped[2]), int(shaped[3] or shaped[2])
        return f"{shaped[1]}{number % 10**most:0{least}d}"
    if pattern:
        raise BadInput(
            f"{item.name} needs its own value in every message; {pattern!r} does not show how: write it "
            "like T[0-9]{1,18}",
            field=item.name,
        )
    return f"{item.name[0]}-{number}"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str).encode()
