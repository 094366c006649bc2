"""A framed JSON message with wrong bytes among good ones: no exception, nothing on stderr, one answer of the block, of
the single reader and of verify, and the good ones are rows as if it were not there.
"""

import json
import random
from base64 import b64encode
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, WireFormat
from platform_defs.contract.model.message_path import parse_path
from platform_defs.formats.blocks.arrow import integers
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.framed import FramedReader
from platform_defs.verify.validators.framed import FramedValidator
from platform_defs.verify.validators.known_schemas import KnownSchemas, NamedSchema
from platform_defs.verify.validators.validator import NoRow
from tests.support.mutations import MESSAGES
from tests.unit.formats.avro.test_avro_agreement import mutated

TYPES = {
    "id": "string",
    "count": "integer",
    "rate": "double",
    "flag": "boolean",
    "amount": "decimal(14,3)",
    "day": "date",
    "at": "timestamp",
    "clock": "time",
    "ref": "uuid",
    "raw": "bytes",
    "words": "array<string>",
    "counts": "array<integer>",
    "sums": "array<decimal(14,3)>",
    "moments": "array<timestamp>",
    "raws": "array<bytes>",
    "address": "json",
    "address.city": "string",
}
CONTRACT = Contract(
    "p",
    "1",
    "d",
    "",
    "t",
    "json",
    tuple(
        Field(path.replace(".", "_"), column_type(of), required=False, rules=(), physical_path=parse_path(path))
        for path, of in TYPES.items()
    ),
    (),
    wire=WireFormat("prefix"),
)
KNOWN = ("7", "300")  # in bytes 0 0 0 7, and 0 0 1 44: a changed byte may name the other


def good(rng: random.Random) -> bytes:
    """Return a message that is a row."""
    document: dict[str, Any] = {
        "id": f"T{rng.randrange(10**6)}é",
        "count": rng.randrange(-(2**63), 2**63),
        "rate": rng.random(),
        "flag": rng.random() < 0.5,
        "amount": f"{rng.randrange(10**9)}.{rng.randrange(1_000):03}",
        "day": "2024-02-29",
        "at": "2026-11-01T10:00:00.123456+01:00",
        "clock": "10:00:00.5",
        "ref": str(UUID(int=rng.getrandbits(128))),
        "raw": b64encode(rng.randbytes(rng.randrange(6))).decode(),
        "words": ["", "é", '"{a,b}\\'][: rng.randrange(4)],
        "counts": [rng.randrange(-(2**63), 2**63) for _ in range(rng.randrange(3))],
        "sums": ["1.5", 12, 0.125][: rng.randrange(4)],
        "moments": ["2026-11-01T10:00:00.5+01:00", "2026-11-01T09:00:00Z"][: rng.randrange(3)],
        "raws": ["AAH/", ""][: rng.randrange(3)],
        "address": {"city": rng.choice(["Ulm", "Köln"]), "tags": [1, None, "x"]},
        "more": rng.choice([1, "y", []]),
    }
    kept = {key: value for key, value in document.items() if rng.random() < 0.8}
    return b"\0" + int(rng.choice(KNOWN)).to_bytes(4) + json.dumps(kept, ensure_ascii=rng.random() < 0.5).encode()


def _validator() -> FramedValidator:
    known = KnownSchemas()
    for key in KNOWN:
        known.add(0, 0, 10, NamedSchema(key, "json", "{}", (), encrypted=False))
    return FramedValidator(CONTRACT, known)


class Readers:
    """The engine's and verify's readers of the same messages."""

    def __init__(self) -> None:
        schemas = {key: WriterSchema(key, "json", "{}") for key in KNOWN}
        self.reader, self.validator = (
            FramedReader(CONTRACT, lambda keys: {key: schemas.get(key) for key in keys}),
            _validator(),
        )

    def engine(self, messages: list[bytes]) -> list[object]:
        """Return the row of each message, or the class of its fault."""
        decoded = self.reader.read(pa.array(messages, pa.binary()), None).decoded
        found: dict[int, object] = {fault.index: fault.error_class for fault in decoded.faults}
        rows = (tuple(row.values()) for row in decoded.rows.to_pylist())
        found.update(zip(integers(decoded.indexes), rows, strict=True))
        return [found[index] for index in range(len(messages))]

    def verify(self, messages: list[bytes]) -> list[object]:
        validated = [self.validator.at(0, 5, message, None) for message in messages]
        return [one.reason if isinstance(one, NoRow) else one for one in validated]


def mutations(number: int, seed: int) -> None:
    """Assert the above for so many mutated messages, in blocks, with a good one behind each of them."""
    rng, readers = random.Random(seed), Readers()
    while number > 0:
        untouched = [good(rng) for _ in range(1_000)]
        rows = readers.verify(untouched)
        assert all(isinstance(row, tuple) for row in rows)
        messages = [part for message in untouched for part in (mutated(message, rng), message)]
        found = readers.engine(messages)
        assert found[1::2] == rows
        for message, engine, verify in zip(messages[::2], found[::2], readers.verify(messages[::2]), strict=True):
            assert engine == verify, message
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
