"""Messages generated from a contract: its examples, enums, patterns and limits are enough, so every pipeline has some.

A field called *_id gets a value of its own in every message (in an upsert, one of a few keys). Bad messages are good
ones with one thing wrong; verify's validator gives in advance the reason of each dead letter.
"""

import base64
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from platform_defs.contract.model.contract import HEADER, Contract, Field
from platform_defs.errors import BadInput
from platform_defs.samples.faults import Fault, faults
from platform_defs.samples.message import Json, MessageTemplate
from platform_defs.samples.values import Value, Values, json_text
from platform_defs.verify.validators.validator import NoRow, Validator

POOL = 1_000  # different values of a field in one block of messages
TIMES = 100  # the same for timestamps, which are made again for each block
TRIES = 10_000  # values generated for a field before giving up on its rules
TOMBSTONES = 0.02  # of an upsert's messages
NULLS = 0.2  # of an optional field


@dataclass(frozen=True, slots=True)
class Sample:
    """A message to produce. `reason`: the one that its dead letter must give; None for a good one."""

    key: bytes | None
    value: bytes | None
    reason: str | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class Samples:
    """Makes messages of one contract; the same `seed` makes the same ones, except for ids and times.

    They are bare JSON, whatever the contract's format (for others see encoded.py). Raises BadInput if no value that
    keeps a field's rules could be generated.
    """

    def __init__(self, contract: Contract, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311  # generated data
        self._keyed = contract.row_table.disposition == "upsert"
        self._template = MessageTemplate(contract.fields)
        self._ids = Identifiers(contract, self._random, few=self._keyed)
        self._columns = [FieldSamples(contract, item, self._random) for item in contract.fields]
        self._pools = [None if column.item is self._ids.field else column.pool() for column in self._columns]
        self._metadata = {
            item.source: FieldSamples(contract, replace(item, source=""), self._random)
            for item in contract.metadata_fields
            if item.header is not None or (item.source == "key" and not self._keyed)
        }
        self._texts = {
            source: [_text_of(column.item, one) for one in column.pool()] for source, column in self._metadata.items()
        }
        self._spare = next(sample.value for sample in self.good(POOL) if sample.value is not None)
        self._faults = self._find_faults(contract)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of bad messages for this contract, in the order in which `bad` takes them."""
        return tuple(reason for _, reason in self._faults)

    def good(self, count: int) -> Iterator[Sample]:
        """Yield `count` messages that keep the contract (an upsert's tombstones among them)."""
        for start in range(0, count, POOL):
            size = min(POOL, count - start)
            ids = self._ids.take(size)
            columns = [self._column(number, size, ids) for number in range(len(self._columns))]
            for key, *values in zip(ids, *columns, strict=True):
                yield self._sample(key, self._template.fill(values))

    def bad(self, number: int, good: Sample) -> Sample:
        """Return `good` with one thing wrong; ascending numbers take the ways in turn."""
        fault, reason = self._faults[number % len(self._faults)]
        return replace(good, value=fault.spoil(good.value or self._spare), reason=reason)

    def _sample(self, key: Json, value: Json) -> Sample:
        if not self._keyed:
            key_of = self._random.choice(self._texts["key"]) if "key" in self._texts else None
            return Sample(key_of, value, headers=self._headers())
        deletes = self._random.random() < TOMBSTONES
        return Sample(key.strip(b'"'), None if deletes else value, headers=self._headers())

    def _headers(self) -> tuple[tuple[str, bytes], ...]:
        chosen = ((source, self._random.choice(texts)) for source, texts in self._texts.items() if source != "key")
        return tuple((source.removeprefix(HEADER), text) for source, text in chosen if text is not None)

    def _column(self, number: int, size: int, ids: Sequence[Json]) -> Sequence[Json]:
        if self._columns[number].item is self._ids.field:
            return ids
        if self._columns[number].item.type.name == "timestamp":
            self._pools[number] = self._columns[number].pool()  # now is later than it was
        return self._random.choices(self._pools[number] or (), k=size)

    def _find_faults(self, contract: Contract) -> list[tuple[Fault, str]]:
        """Return each way to spoil a message that works on this contract, with its reason; one per kind and reason."""
        validator, found = Validator(contract), dict[tuple[str, str], tuple[Fault, str]]()
        for fault in faults(contract):
            result = validator.value(fault.spoil(self._spare))
            if isinstance(result, NoRow):
                found.setdefault((fault.kind, result.reason), (fault, result.reason))
        return list(found.values())


class FieldSamples:
    """Values of one field that keep its rules."""

    def __init__(self, contract: Contract, item: Field, source: random.Random) -> None:
        self.item, self._contract = item, contract
        self._validator = Validator(replace(contract, fields=(item,)))
        self._template = MessageTemplate([item])
        self._values = Values(item, source, self.keeps)

    def keeps(self, value: Value) -> bool:
        """Return True if a message may have `value` in the field."""
        return not isinstance(self._validator.value(self._template.fill([json_text(value)])), NoRow)

    def pool(self) -> list[Json]:
        """Return JSON texts of values that keep the field's rules; some are null if it is optional."""
        wanted = TIMES if self.item.type.name == "timestamp" else POOL
        found: list[Json] = []
        for _ in range(TRIES):
            value = self._values.one()
            if self.keeps(value):
                found.append(json_text(value))
            if len(found) == wanted:
                break
        if not found:
            raise _nothing_fits(self._contract, self.item)
        nulls = 0 if self.item.required else int(len(found) * NULLS)
        return [*found[nulls:], *[b"null"] * nulls]

    def matching(self, pattern: str) -> str:
        """Return a text that keeps the field's rules, `pattern` among them."""
        for _ in range(TRIES):
            if self.keeps(made := self._values.matching(pattern)):
                return made
        raise _nothing_fits(self._contract, self.item)


class Identifiers:
    """The values of the field called *_id, if the contract has one: a new one for every message, or one of a few.

    A pattern such as T[0-9]{1,18} is filled with a number that counts up, which is quick and never repeats itself;
    any other is filled at random.
    """

    def __init__(self, contract: Contract, source: random.Random, *, few: bool) -> None:
        self._contract, self._random, self._few = contract, source, few
        self._number = time.time_ns() // 1_000
        named = [one for one in contract.fields if one.name.endswith("_id") and one.type.name == "string"]
        self.field = next((one for one in named if not _rule(one, "enum")), None)
        self._samples = FieldSamples(contract, self.field, source) if self.field else None
        self._pattern = _rule(self.field, "pattern") if self.field else ""
        self._counted = True
        if self.field is not None and self._samples is not None:
            made = _identifier(self.field, self._pattern, self._number)
            self._counted = made is not None and self._samples.keeps(made)
            if not self._counted and not self._pattern:
                raise _nothing_fits(self._contract, self.field)
        self._kept = [] if self._counted or not few else [self._one(n) for n in range(POOL)]

    def take(self, size: int) -> list[Json]:
        """Return JSON texts of `size` values; plain numbers, to be keys, if the contract has no such field."""
        if self._kept:
            return self._random.choices(self._kept, k=size)
        numbers = range(self._number, self._number + size)
        self._number += size
        if self._few:
            numbers = (self._random.randrange(10 * POOL) for _ in numbers)
        return [self._one(number) for number in numbers]

    def _one(self, number: int) -> Json:
        if self.field is None or self._samples is None:
            return str(number).encode()
        if self._counted:
            return json_text(_identifier(self.field, self._pattern, number))
        return json_text(self._samples.matching(self._pattern))


def _text_of(item: Field, value: Json) -> bytes | None:
    """Return a generated value as a key or a header has it: the text of a number or of true and false, a string without
    its quotes, bytes as they are.
    """
    document = json.loads(value, parse_float=str)
    if document is None or item.type.kind in ("integer", "double", "boolean"):
        return None if document is None else value
    return base64.b64decode(document) if item.type.kind == "bytes" else str(document).encode()


_COUNTED = re.compile(r"([\w-]*)(?:\[0-9\]|\\d)\{(\d+)(?:,(\d+))?\}")


def _rule(item: Field, kind: str) -> str:
    return next((rule.argument for rule in item.rules if rule.kind == kind), "")


def _identifier(item: Field, pattern: str, number: int) -> str | None:
    """Return an id with `number` in it, in the shape of `pattern`; None if that does not show how to count."""
    if not pattern:
        return f"{item.name[0]}-{number}"
    shaped = _COUNTED.fullmatch(pattern)
    if shaped is None:
        return None
    least, most = int(shaped[2]), int(shaped[3] or shaped[2])
    return f"{shaped[1]}{number % 10**most:0{least}d}"


def _nothing_fits(contract: Contract, item: Field) -> BadInput:
    message = f"no value that satisfies the rules of {item.name} could be generated; add examples to the field"
    return BadInput(message, file=str(contract.path) if contract.path else None, field=item.name)
