"""A task's decoding: by a registry's generations, with headers, of chosen messages only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from platform_defs.contract.model.column_types import column_type
from platform_defs.contract.model.contract import Contract, Field, Format, Framing, WireFormat
from platform_defs.contract.redaction import redacted, stored_reason
from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.errors.halts import RegistrySwitched
from platform_defs.formats.blocks.arrow import columns_of, integers
from platform_defs.formats.blocks.block import message_blocks
from platform_defs.formats.blocks.writer_schema import WriterSchema

INTEGER = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
FLIPPED = INTEGER.replace('"n"', '"other"')
FIELDS = (Field("n", column_type("integer"), False, ()),)


@dataclass
class Remembered:
    """Schemas by generation and key (engine.schema_finder.Schemas)."""

    schemas: Mapping[tuple[int, str], str]
    starts: Sequence[tuple[int, int]] = ((0, 1),)
    registry: str = "default"
    asked: list[tuple[int, Sequence[str]]] = field(default_factory=list[tuple[int, Sequence[str]]])

    def generations(self, partition: int) -> Sequence[tuple[int, int]]:  # noqa: ARG002
        return self.starts

    def find(self, generation: int, keys: Sequence[str]) -> Mapping[str, WriterSchema | None]:
        self.asked.append((generation, keys))
        found = {key: self.schemas.get((generation, key)) for key in keys}
        return {key: None if text is None else WriterSchema(key, "avro", text) for key, text in found.items()}

    def switched(self) -> RegistrySwitched | None:
        return None

    def switched_since(self, named: object) -> RegistrySwitched | None:  # noqa: ARG002
        return None

    def is_familiar(self) -> bool:
        return False

    def accepting(self) -> "Remembered":
        return self

    def forgotten(self, ranges: object, named: object) -> Sequence[str]:  # noqa: ARG002
        return ()


@dataclass(frozen=True)
class Delivered:
    """A message as confluent_kafka gives it."""

    at: int
    content: bytes | None
    named: tuple[tuple[str, bytes | None], ...] = ()

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return self.content

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.named)

    def leader_epoch(self) -> int | None:
        return None


def contract(framing: Framing = "prefix", kind: Format = "avro", text: str = "") -> Contract:
    return Contract("p", "1", "d", "", "t", kind, FIELDS, (), wire=WireFormat(framing, schema_text=text))


def message(at: int, number: int, value: int) -> Delivered:
    return Delivered(at, b"\0" + number.to_bytes(4) + bytes([2 * value]))


def read(decoder: BlockDecoder, messages: Sequence[Delivered], chosen: list[int] | None = None) -> dict[int, object]:
    """Return the value of each chosen message, or the class of its fault, by index."""
    (block,) = message_blocks(messages)
    found = decoder.read(0, block, None if chosen is None else pa.array(chosen, pa.int64())).decoded
    rows = zip(integers(found.indexes), columns_of(found.rows)[0].to_pylist(), strict=True)
    return {**dict(rows), **{fault.index: fault.error_class for fault in found.faults}}


def test_the_same_id_means_another_schema_from_the_next_generation_on() -> None:
    schemas = Remembered({(1, "7"): INTEGER, (2, "7"): FLIPPED, (2, "8"): INTEGER}, starts=((0, 1), (12, 2)))
    messages = [message(10, 7, 1), message(11, 8, 2), message(12, 7, 3), message(15, 8, 4)]
    assert read(BlockDecoder(contract(), schemas), messages) == {0: 1, 1: "UnknownSchemaId", 2: None, 3: 4}
    assert schemas.asked == [(1, ["7", "8"]), (2, ["7", "8"])]
    assert read(BlockDecoder(contract(), schemas), messages, [0, 3]) == {0: 1, 1: 4}
    assert read(BlockDecoder(contract(), schemas), messages[:2]) == {0: 1, 1: "UnknownSchemaId"}
    (block,) = message_blocks(messages)
    assert BlockDecoder(contract(), schemas).read(0, block, None).schemas == {
        (1, "7", "value"): 1,
        (2, "7", "value"): 1,
        (2, "8", "value"): 1,
    }


def test_records_that_a_contract_skips_are_counted_where_messages_name_no_schema_too() -> None:
    union = f"[{INTEGER}, {INTEGER.replace(chr(34) + 'R' + chr(34), chr(34) + 'Other' + chr(34))}]"
    skips = WireFormat("none", record="R", other_records="skip", schema_text=union)
    (block,) = message_blocks([Delivered(0, b"\0\2"), Delivered(1, b"\2\4"), Delivered(2, b"\0\6")])
    found = BlockDecoder(replace(contract(), wire=skips), None).read(0, block, None)
    assert (integers(found.decoded.indexes), found.decoded.faults, found.skipped) == ([0, 2], [], 1)


def test_the_last_header_of_the_name_counts() -> None:
    named = (("__value_schema_id", b"odd"), ("other", None), ("__value_schema_id", b"\0\0\0\0\7"))
    decoder = BlockDecoder(contract("header"), Remembered({(1, "7"): INTEGER}))
    assert read(decoder, [Delivered(0, b"\4", named), Delivered(1, b"\4")]) == {0: 2, 1: "MissingSchemaHeader"}
    assert read(decoder, [Delivered(0, b"\4"), Delivered(1, b"\6", named)], [1]) == {0: 3}


@pytest.mark.parametrize(("kind", "payload"), [("json", b'{"n":1}'), ("avro", b"\2"), ("json", b"\xff")])
def test_a_frame_that_the_contract_does_not_declare_is_named(kind: Format, payload: bytes) -> None:
    (block,) = message_blocks([Delivered(0, b"\0\0\0\1\7" + payload), Delivered(1, b"\2\4\0"), Delivered(2, None)])
    found = BlockDecoder(contract("none", kind, INTEGER), None).read(0, block, None).decoded
    hint = "a schema id: if its producer uses a schema registry, set framing: prefix"
    assert [hint in fault.message for fault in found.faults] == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "behind"),
    [("avro", b""), ("avro", b"\4no"), ("json", b""), ("protobuf", b"")],
    ids=["a message that ends early", "a wrong open field", "json", "protobuf"],
)
def test_a_frame_that_the_contract_does_not_declare_quotes_no_byte_of_a_classified_value(
    kind: Format, behind: bytes
) -> None:
    """Without a frame, the bytes after the first are a value's: here of a union whose first branch is a string."""
    record = '{"type": "record", "name": "R", "fields": [{"name": "person", "type": ["string", "null"]}, %s]}'
    message = 'syntax = "proto3"; message R { string person = 1; string id = 2; }'
    schema = message if kind == "protobuf" else record % '{"name": "id", "type": "string"}'
    person = Field("person", column_type("string"), False, (), classification="restricted")
    fields = (person, Field("id", column_type("uuid"), False, ()))
    hiding = replace(contract("none", kind, schema), fields=fields)
    (block,) = message_blocks([Delivered(0, b"\0\x06Bob" + behind)])
    (fault,) = BlockDecoder(hiding, None).read(0, block, None).decoded.faults
    (stored,) = redacted(hiding, [fault])
    assert stored.message == stored_reason(hiding, fault.stage, fault.error_class, fault.message, fault.field)
    assert "Bob" not in stored.message
    assert str(int.from_bytes(b"\x06Bob")) not in stored.message


def test_messages_that_name_no_schema_are_of_the_one_beside_the_contract() -> None:
    decoder = BlockDecoder(contract("none", text=INTEGER), None)
    assert read(decoder, [Delivered(0, b"\4"), Delivered(1, None), Delivered(2, b"")]) == {
        0: 2,
        1: "NullValue",
        2: "TruncatedAvro",
    }
