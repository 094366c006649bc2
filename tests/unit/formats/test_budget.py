"""A block that would become too much text is read in halves: the same rows, fewer at a time."""

import json

import numpy as np
import pyarrow as pa
import pytest

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.engine.task.task import _Tally
from platform_defs.formats.blocks import budget
from platform_defs.formats.blocks.arrow import integers
from platform_defs.formats.blocks.block import Block, in_parts, message_blocks
from platform_defs.formats.blocks.budget import BlockTooLarge, Budget
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.formats.blocks.schema_cache import SchemaCache
from platform_defs.formats.blocks.writer_schema import WriterSchema
from platform_defs.formats.framed import FramedReader
from platform_defs.formats.supported import Reader, reader_of
from platform_defs.offsets import OffsetRange
from tests.unit.formats.avro import avro_messages
from tests.unit.formats.protobuf import protobuf_messages

AVRO = avro_messages.record(
    e=avro_messages.record("Inner", **{"x" * 1_000: "boolean"}),
    s={"type": "enum", "name": "E", "symbols": ["A" * 1_000]},
)
PROTO = f'syntax = "proto3"; enum E {{ {"A" * 1_000} = 0; }} message M {{ repeated E e = 1; E s = 2; }}'
COLUMNS = {"e": "json", "s": "string"}


def readers() -> list[tuple[Reader, bytes]]:
    """Return for each format a reader, and a message of few bytes that becomes 2,000 characters."""
    avro = avro_messages.contract_of(COLUMNS)
    protobuf = protobuf_messages.contract_of(COLUMNS)
    return [
        (reader_of(avro, avro_messages.writer(AVRO)), b"\1\0"),
        (reader_of(protobuf, protobuf_messages.schema(PROTO)), b"\x0a\x01\0"),
    ]


def read(reader: Reader, message: bytes, count: int) -> Decoded:
    stops = np.arange(1, count + 1) * len(message)
    return reader.read(np.frombuffer(message * count, np.uint8), stops - len(message), stops)


@pytest.mark.parametrize("count", [10, 200])  # one by one, and at once
def test_a_block_of_long_names_is_too_large_and_its_halves_are_not(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader, message in readers():
        monkeypatch.setattr(budget, "MAX_SPELLED", 2_100 * count)
        assert read(reader, message, count).rows.num_rows == count
        monkeypatch.setattr(budget, "MAX_SPELLED", 1_900 * count)
        with pytest.raises(BlockTooLarge):
            read(reader, message, count)
        assert read(reader, message, count // 2).rows.num_rows == count // 2


def test_a_single_message_may_be_what_its_columns_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MAX_SPELLED", 10)
    for reader, message in readers():
        assert read(reader, message, 1).rows.num_rows == 1


def test_the_schemas_of_a_block_share_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    contract = avro_messages.contract_of(COLUMNS)
    known = {key: WriterSchema(key, "avro", json.dumps(AVRO)) for key in ("1", "2")}
    reader = FramedReader(contract, lambda keys: {key: known[key] for key in keys})
    values = pa.array([b"\0\0\0\0" + bytes([n]) + b"\1\0" for n in (1, 2)] * 70, pa.binary())
    monkeypatch.setattr(budget, "MAX_SPELLED", 200_000)  # 140,000 a schema
    with pytest.raises(BlockTooLarge):
        reader.read(values, None)
    assert reader.read(values.slice(0, 70), None).decoded.rows.num_rows == 70


class Delivered:
    """A message that names no schema."""

    def __init__(self, at: int) -> None:
        self._at = at

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"\1\0" if self._at % 10 else b"wrong"

    def offset(self) -> int:
        return self._at

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def headers(self) -> None:
        return None

    def leader_epoch(self) -> None:
        return None


def unframed() -> Contract:
    found = avro_messages.contract_of(COLUMNS)
    wire = type(found.wire)(framing="none", schema_text=json.dumps(AVRO))
    return type(found)(**{**vars(found), "wire": wire})


def test_the_parts_of_a_block_are_its_messages_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = message_blocks([Delivered(at) for at in range(500, 900)])
    decoder, seen = BlockDecoder(unframed(), None), list[int]()
    tally = _Tally(OffsetRange("topic", 0, 500, 900))
    monkeypatch.setattr(budget, "MAX_SPELLED", 250_000)

    def decoded(part: Block):
        return decoder.read(0, part, None)

    parts = list(in_parts(block, decoded))
    assert len(parts) == 4
    for part, found in parts:
        tally.add(part, found.decoded.rows.num_rows, len(found.decoded.faults), found)
        seen += [part.message(index).offset() for index in integers(found.decoded.indexes)]
        assert all(part.message(fault.index).offset() % 10 == 0 for fault in found.decoded.faults)
    assert seen == [at for at in range(500, 900) if at % 10]
    assert (tally.rows, tally.dead, tally.gaps.text) == (360, 40, "{}")


def test_what_was_used_last_is_kept() -> None:
    kept = SchemaCache[str](most_bytes=10)
    assert kept.put("a", "A", 4) == "A"
    kept.put("b", "B", 4)
    assert kept.get("a") == "A"
    kept.put("c", "C", 4)
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]
    kept.put("d", "D", 1_000)
    assert (len(kept), kept.get("d")) == (1, "D")


def test_schemas_that_were_forgotten_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    document = json.dumps({**avro_messages.record(a="int"), "doc": "x" * 1_000_000})

    def find(keys):
        asked.extend(keys)
        return {key: WriterSchema(key, "avro", document) for key in keys}

    reader = FramedReader(avro_messages.contract_of({"a": "integer"}), find)
    for number in range(1, 41):
        values = pa.array([b"\0\0\0\0" + bytes([number]) + b"\2"], pa.binary())
        assert reader.read(values, None).decoded.rows.num_rows == 1
        assert len(reader.known) <= 18
        assert len(reader.readers) <= 16
    assert len(asked) == 40


def test_a_budget_is_of_several_messages() -> None:
    Budget(1, 5).spend(10)
    with pytest.raises(BlockTooLarge):
        Budget(2, 5).spend(6)
