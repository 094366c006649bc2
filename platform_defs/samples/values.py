"""Values generated for one field: from its examples, its enum, its pattern and its limits."""

import math
import random
import re
import warnings
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from json import dumps, loads
from typing import Any
from uuid import UUID

import pyarrow as pa
from rstr import Rstr

from platform_defs.contract.model.contract import Field
from platform_defs.errors import BadInput
from platform_defs.formats.json.values import TICKS
from platform_defs.times import EPOCH

Value = Any  # what json.dumps takes, with Decimal (written as a string)
WORDS = (
    *("ada", "amber", "anchor", "basin", "blaise", "canal", "delta", "dora", "emil", "estuary", "ferry", "grace"),
    *("harbour", "ida", "jetty", "lagoon", "lena", "lock", "maria", "mole", "noor", "otto", "pier", "quay", "reef"),
    *("rosa", "sluice", "tide", "weir"),
)


class Values:
    """Makes values of one field. They usually satisfy its rules: callers check with `keeps` first."""

    def __init__(self, item: Field, source: random.Random, keeps: Callable[[Value], bool]) -> None:
        self._item, self._random, self._keeps = item, source, keeps
        self._rstr = Rstr(source)
        self._rules = {rule.kind: rule.argument for rule in item.rules}
        self._make = self._maker()

    def one(self) -> Value:
        """Return a value of the field, as JSON has it: decimals, dates, and timestamps without a unit are strings."""
        allowed = self._rules.get("enum", ())
        return self._random.choice(allowed) if allowed else self._make()

    def _maker(self) -> Callable[[], Value]:
        if of := self._item.type.item:
            items = Values(replace(self._item, type=of, rules=(), examples=()), self._random, lambda _: True)
            return lambda: self._array(items)
        if pa.types.is_decimal(self._item.type.arrow):
            return lambda: f"{self._number():.{self._item.type.scale}f}"
        return {
            "string": self._text,
            "integer": lambda: round(self._number()),
            "double": self._number,
            "boolean": lambda: self._random.random() < 0.5,
            "date": self._date,
            "timestamp": self._timestamp,
            "json": self._json,
            "uuid": lambda: str(UUID(int=self._random.getrandbits(128), version=4)),
            "time": self._time,
            "bytes": lambda: b64encode(self._random.randbytes(self._random.randrange(12))).decode(),
        }[self._item.type.name]

    def _text(self) -> str:
        if self._item.examples:
            return self._like(str(self._random.choice(self._item.examples)))
        if pattern := self._rules.get("pattern"):
            return self.matching(pattern)
        more = self._rules.get("min_length", 0) // 3
        words = " ".join(self._random.choices(WORDS, k=self._random.randint(1, 3) + more))
        return words[: self._rules.get("max_length")].strip()

    def matching(self, pattern: str) -> str:
        """Return a text that matches `pattern`, if Python's dialect and RE2's agree about it (`keeps` checks that).

        Raises BadInput for a pattern that is RE2's alone.
        """
        try:
            with warnings.catch_warnings(action="error", category=FutureWarning):  # at [[:alpha:]]
                return self._rstr.xeger(pattern)
        except (re.error, FutureWarning, KeyError, IndexError) as error:
            message = f"no value that matches {pattern!r} could be generated ({error}); add examples to the field"
            raise BadInput(message, field=self._item.name) from error

    def _like(self, example: str) -> str:
        """Return a variation of an example: other digits, or another first word, or a word more."""

        def digit(_: re.Match[str]) -> str:
            return str(self._random.randrange(10))

        word = self._random.choice(WORDS)
        for changed in (re.sub(r"\d", digit, example), re.sub(r"^[a-z]+", word, example), example + word):
            if changed != example and self._keeps(changed):
                return changed
        return example

    def _number(self) -> float:
        """Return a number: around an example if there is one, else between the limits, more often a small one."""
        least, most = self._rules.get("minimum"), self._rules.get("maximum")
        if least is None:
            least = 0 if most is None or most > 0 else float(most) - 1_000
        low, high = float(least), float(max(least, 0) + 1_000 if most is None else most)
        if self._item.examples:
            example = float(self._random.choice(self._item.examples))
            return min(high, max(low, example * math.exp(self._random.gauss(0, 1.5))))
        return low + (high - low) * self._random.random() ** 3

    def _date(self) -> str:
        today = datetime.now(UTC).date()
        high: date = self._rules.get("maximum", max(today, self._rules.get("minimum", today)))
        low: date = self._rules.get("minimum", high - timedelta(3_650))
        return str(low + timedelta(self._random.randint(0, (high - low).days)))

    def _timestamp(self) -> str | int:
        at = datetime.now(UTC) - timedelta(seconds=self._random.random() * 5)
        at = max(at, self._rules.get("minimum", at))
        at = min(at, self._rules.get("maximum", at))
        if unit := self._item.unit:
            milliseconds = (at - EPOCH) // timedelta(milliseconds=1)
            return milliseconds * TICKS[unit] // TICKS["ms"]
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _time(self) -> str:
        at = str(timedelta(seconds=self._random.randrange(86_400))).rjust(8, "0")
        return min(max(at, self._rules.get("minimum", at)), self._rules.get("maximum", at))

    def _array(self, items: "Values") -> Value:
        """Return one of the examples, or up to three values."""
        if self._item.examples:
            return list(self._random.choice(self._item.examples))
        return [items.one() for _ in range(self._random.randrange(4))]

    def _json(self) -> Value:
        """Return one of the examples, or an object with a bit of everything that JSON has."""
        if self._item.examples:
            return loads(self._random.choice(self._item.examples))  # a contract keeps them as JSON texts
        return {
            "kind": self._random.choice(WORDS),
            "tags": self._random.sample(WORDS, k=self._random.randrange(4)),
            "amount": round(self._random.random() * 1_000, 2),
            "count": self._random.randrange(1_000),
            "checked": self._random.random() < 0.5,
            "place": {"postCode": f"{self._random.randrange(100_000):05d}", "note": None},
        }


def json_text(value: Value) -> bytes:
    """Return `value` as JSON: decimals, dates and timestamps of the contract's examples as strings."""
    return dumps(value, separators=(",", ":"), ensure_ascii=False, default=_as_string).encode()


def _as_string(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, date | Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
