"""A message with wrong bytes among good ones: no exception, nothing on stderr, one answer of all readers, and the good
ones are rows as if it were not there.
"""

import random
from typing import Any
from uuid import UUID

import pytest

from tests.support.mutations import MESSAGES
from tests.unit.formats.avro.avro_messages import DECIMAL, Readers, contract_of, encode, fixed, logical, record
from tests.unit.formats.avro.test_avro_agreement import mutated

SCHEMA = record(
    id="string",
    small="int",
    large="long",
    ratio="float",
    rate="double",
    flag="boolean",
    colour={"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE", "GREEN"]},
    amount={"type": "bytes", **DECIMAL},
    wide=fixed(16, "Wide", **DECIMAL),
    day=logical("int", "date"),
    at=logical("long", "timestamp-micros"),
    precise=logical("long", "timestamp-nanos"),
    ref=logical("string", "uuid"),
    binary_ref=["null", fixed(16, "Ref", logicalType="uuid")],
    clock=["null", logical("long", "time-micros")],
    raw="bytes",
    memo=["null", "string"],
    account=["null", record("Account", iban="string", bank=["null", record("Bank", name="string")], open="boolean")],
    passed=record("Passed", tags={"type": "array", "items": ["null", "string", "long"]}, size="int"),
    attributes={"type": "map", "values": ["long", "string"]},
    either=["null", "string", "long"],
    words={"type": "array", "items": "string"},
    sums=["null", {"type": "array", "items": {"type": "bytes", **DECIMAL}}],
    moments={"type": "array", "items": ["null", logical("long", "timestamp-micros")]},
    colours={"type": "array", "items": "Colour"},
    last="int",
)
CONTRACT = contract_of(
    {
        "id": "string",
        "small": "integer",
        "large": "decimal(18,1)",
        "ratio": "double",
        "rate": "double",
        "flag": "boolean",
        "colour": "string",
        "amount": "decimal(14,3)",
        "wide": "decimal(38,1)",
        "day": "date",
        "at": "timestamp",
        "precise": "timestamp",
        "ref": "uuid",
        "binary_ref": "uuid",
        "clock": "time",
        "raw": "bytes",
        "memo": "string",
        "iban": "string",
        "bank": "string",
        "attributes": "json",
        "either": "json",
        "words": "array<string>",
        "sums": "array<decimal(14,3)>",
        "moments": "array<timestamp>",
        "colours": "array<string>",
        "last": "integer",
    },
    iban="account.iban",
    bank="account.bank.name",
)


def good(rng: random.Random) -> bytes:
    """Return a message that is a row."""
    account = {"iban": "DE02", "bank": rng.choice([(0, None), (1, {"name": "Ünion"})]), "open": rng.random() < 0.5}
    value: dict[str, Any] = {
        "id": f"T{rng.randrange(10**6)}",
        "small": rng.randrange(-(2**31), 2**31),
        "large": rng.randrange(-(10**16), 10**16),
        "ratio": 0.25,
        "rate": rng.random(),
        "flag": rng.random() < 0.5,
        "colour": rng.randrange(3),
        "amount": rng.randrange(-(10**9), 10**9).to_bytes(rng.randint(4, 6), "big", signed=True),
        "wide": (rng.randrange(-(10**30), 10**30) * 10).to_bytes(16, "big", signed=True),
        "day": rng.randrange(30_000),
        "at": rng.randrange(2 * 10**15),
        "precise": rng.randrange(2 * 10**15) * 1000,
        "ref": str(UUID(int=rng.getrandbits(128))),
        "binary_ref": rng.choice([(0, None), (1, rng.randbytes(16))]),
        "clock": rng.choice([(0, None), (1, rng.randrange(86_400_000_000))]),
        "raw": rng.randbytes(rng.randrange(4)),
        "memo": rng.choice([(0, None), (1, "é" * rng.randrange(4))]),
        "account": rng.choice([(0, None), (1, account)]),
        "passed": {"tags": [(0, None), (1, "a"), (2, 7), (1, "b")][: rng.randrange(5)], "size": 1},
        "attributes": [("a", (0, 5)), ("b", (1, "x"))][: rng.randrange(3)],
        "either": rng.choice([(0, None), (1, "s"), (2, 2)]),
        "words": ["", "é", "{a,b}"][: rng.randrange(4)],
        "sums": rng.choice([(0, None), (1, [b"\x01\x00", b"\xff"][: rng.randrange(3)])]),
        "moments": [(1, rng.randrange(2 * 10**15)) for _ in range(rng.randrange(3))],
        "colours": [rng.randrange(3) for _ in range(rng.randrange(3))],
        "last": rng.randrange(1000),
    }
    return encode(SCHEMA, value)


def mutations(number: int, seed: int) -> None:
    """Assert the above for so many mutated messages, in blocks, with a good one behind each of them."""
    rng, readers = random.Random(seed), Readers(CONTRACT, SCHEMA)
    while number > 0:
        untouched = [good(rng) for _ in range(1_000)]
        rows = readers.single(untouched)
        assert all(isinstance(row, tuple) for row in rows)
        messages = [part for message in untouched for part in (mutated(message, rng), message)]
        decoded = readers.decoded(messages)
        assert decoded[1::2] == rows
        assert decoded[::2] == readers.verification(messages[::2])
        assert decoded[::2] == readers.single(messages[::2])
        number -= 1_000


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_wrong_bytes_harm_one_message_only(capfd: pytest.CaptureFixture[str]) -> None:
    mutations(3_000, seed=1)
    assert capfd.readouterr() == ("", "")


@pytest.mark.longest
@pytest.mark.timeout(7_200)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_messages_with_wrong_bytes_harm_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    mutations(MESSAGES, seed=2)
    assert capfd.readouterr() == ("", "")
