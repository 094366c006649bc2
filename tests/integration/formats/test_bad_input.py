"""Any message becomes a row or one dead letter with the reason, and the other messages commit."""

import json
from typing import Any

import pytest
from confluent_kafka import Producer

from platform_defs.errors import Halt
from tests.support.waiting import within
from tests.support.world import World, transfer, transfers

NO = "which is not a timestamp with a zone such as"
DEEP = transfer(26)[:-1] + b',"memo":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
BAD: dict[str, tuple[bytes | None, str, str, str | None, str]] = {  # value, stage, error class, field, message
    "not JSON": (b"hello", "decode", "InvalidJson", None, "not JSON: expecting value at character 0: hello"),
    "half an object": (transfer(1)[:-20], "decode", "InvalidJson", None, "the value ends in the middle"),
    "two objects": (
        transfer(2) + transfer(3),
        "decode",
        "InvalidJson",
        None,
        "unexpected text after the end of the value",
    ),
    "two lines": (transfer(2) + b"\n" + transfer(3), "decode", "InvalidJson", None, "unexpected text"),
    "an array": (b"[" + transfer(4) + b"]", "decode", "NotAnObject", None, "valid JSON but not an object"),
    "empty": (b"", "decode", "EmptyValue", None, "empty"),
    "blank": (b" \t\r\n", "decode", "EmptyValue", None, "blank: 4 bytes of whitespace"),
    "NULL": (None, "decode", "NullValue", None, "no value"),
    "bad UTF-8": (transfer(5, memo="x").replace(b'"x"', b'"\xff\xfe"'), "decode", "InvalidUtf8", None, "is not UTF-8"),
    "NUL": (transfer(6, memo="a\0b"), "decode", "NulCharacter", "memo", r"holds \u0000, which Postgres' text cannot"),
    "raw NUL": (transfer(6, memo="x").replace(b'"x"', b'"\0"'), "decode", "InvalidJson", None, "control character"),
    "half a character": (transfer(7, memo="\ud800"), "decode", "InvalidUnicode", "memo", "half a surrogate pair"),
    "duplicate keys": (transfer(8)[:-1] + b',"amount":"1.00"}', "decode", "DuplicateKey", "amount", "appears twice"),
    "missing": (b'{"transfer_id":"T9"}', "check", "debit_account_required", "debit_account", "is missing"),
    "null": (
        transfer(10, currency=None),
        "check",
        "currency_required",
        "currency",
        "missing; the contract requires",
    ),
    "a number for a string": (transfer(11, transfer_id=11), "decode", "WrongType", "transfer_id", "the number 11; the"),
    "a string for a number": (transfer(12, "ten"), "decode", "WrongType", "amount", 'the string "ten"; the contract'),
    "an object for a string": (transfer(13, memo={"a": 1}), "decode", "WrongType", "memo", "is an object; the"),
    "three decimals": (transfer(14, "10.005"), "decode", "TooManyDecimals", "amount", "nothing is rounded"),
    "NaN": (transfer(15).replace(b'"10.00"', b"NaN"), "decode", "InvalidJson", None, "NaN is not valid JSON"),
    '"NaN"': (transfer(16, "NaN"), "decode", "WrongType", "amount", 'the string "NaN"'),
    "overflow": (transfer(17, "1" * 40), "decode", "OutOfRange", "amount", "16 digits before the point"),
    "a huge exponent": (transfer(18, "1e999999999999999999999"), "decode", "OutOfRange", "amount", "has 16 digits"),
    "30 February": (transfer(19, occurred_at="2026-02-30T10:00:00Z"), "decode", "InvalidTimestamp", "occurred_at", NO),
    "25 o'clock": (transfer(20, occurred_at="2026-02-20T25:00:00Z"), "decode", "InvalidTimestamp", "occurred_at", NO),
    "no zone": (transfer(21, occurred_at="2026-02-20T10:00:00"), "decode", "InvalidTimestamp", "occurred_at", "with a"),
    "below the minimum": (transfer(22, "0.00"), "check", "amount_minimum", "amount", "0.00; the contract requires"),
    "not in the list": (transfer(23, currency="XXX"), "check", "currency_enum", "currency", "requires one of CHF, EUR"),
    "no such account": (transfer(24, debit="A1"), "check", "debit_account_pattern", "debit_account", "a match of A"),
    "900 KB": (
        transfer(25, memo="x" * 900_000),
        "check",
        "memo_max_length",
        "memo",
        "contract requires at most",
    ),
    "900 KB of nonsense": (b"\x00\xff" * 450_000, "decode", "InvalidUtf8", None, "byte 1 is not UTF-8"),
    "100,000 levels": (b"[" * 100_000 + b"]" * 100_000, "decode", "TooDeep", None, "deeper than 100 levels"),
    "deep in a field": (DEEP, "decode", "TooDeep", None, "deeper than 100 levels"),
}
FINE: list[bytes] = [
    transfer(100, note="a field that the contract does not know", more={"a": [1, {"b": None}]}),
    json.dumps(json.loads(transfer(101)), indent=2).encode(),
    b" \r\n" + transfer(102) + b"\t\n",
    transfer(103, memo=None),
    transfer(104, memo="x" * 140),
    transfer(105).replace(b'"10.00"', b"10"),
    *transfers(10, start=106),
]


@pytest.mark.slow
def test_each_kind_of_bad_message_is_a_dead_letter_with_its_reason_and_its_neighbours_commit(world: World) -> None:
    pipeline = world.new_pipeline()
    names, values = list(BAD), [case[0] for case in BAD.values()]
    places = world.send(pipeline, [*FINE[:8], *values, *FINE[8:]])[8:-8]
    (batch,) = world.drain(pipeline)
    letters = {(item["partition"], item["offset"]): item for item in world.dead_letters(pipeline)}
    assert sorted(letters) == sorted(places)
    for name, place in zip(names, places, strict=True):
        value, stage, error_class, field, message = BAD[name]
        letter = letters[place]
        assert (name, letter["stage"], letter["error_class"], letter["field"]) == (name, stage, error_class, field)
        assert message in letter["error_message"], (name, letter["error_message"])
        assert len(letter["error_message"]) < 400
        assert letter["value"] == value, name
    assert (batch.messages, batch.rows) == (len(BAD) + len(FINE), 2 * len(FINE))
    assert (batch.dead_letters, batch.unknown_fields) == (len(BAD), 1)
    booked = world.rows(f"select distinct transfer_id from {pipeline.contract.row_table.name}")
    assert {row["transfer_id"] for row in booked} == {f"T{number + 1}" for number in range(100, 116)}
    assert world.rows(f"select sum(balance) as s from {pipeline.contract.tables[1].name}") == [{"s": 0}]


@pytest.mark.slow
def test_each_rule_counts_what_it_turned_away_with_samples(world: World) -> None:
    pipeline = world.new_pipeline()
    places = world.send(pipeline, [*transfers(6), transfer(6, "0.00"), transfer(7, "0.00"), b"hello"])
    (batch,) = world.drain(pipeline)
    checks = {check.name: check for check in batch.checks}
    assert checks["message_decodes"].observed["failed"] == 1
    first, second = checks["amount_minimum"].observed["samples"]
    assert (first["field"], first["message"]) == ("amount", "amount is 0.00; the contract requires at least 0.01")
    assert {(s["partition"], s["offset"]) for s in (first, second)} == set(places[6:8])
    assert [name for name, check in checks.items() if not check.passed] == ["message_decodes", "amount_minimum"]


@pytest.mark.longest
def test_a_dead_letter_keeps_key_headers_and_time_as_they_came(world: World) -> None:
    pipeline = world.new_pipeline()
    headers = [
        ("trace", b"\x00\xff\x01"),
        ("none", None),
        ("empty", b""),
        ("trace", "once more ß".encode()),
        ("", b"unnamed"),
    ]
    producer = Producer(world.endpoints.kafka_options())
    producer.produce(
        pipeline.contract.topic, b"\xff", key=b"\x00\xfe key", partition=0, headers=headers, timestamp=1_700_000_000_123
    )
    producer.produce(pipeline.contract.topic, b"\xff", partition=1, timestamp=1)
    producer.produce(pipeline.contract.topic, transfer(1), partition=1, headers=headers)
    assert producer.flush(10) == 0
    world.drain(pipeline)
    full, bare = world.dead_letters(pipeline)
    assert (full["key"], full["timestamp_ms"]) == (b"\x00\xfe key", 1_700_000_000_123)
    assert (bare["key"], bare["timestamp_ms"], bare["headers"]) == (None, 1, None)
    query = (
        "select h.name, h.value from tidegate.dead_letter, unnest(headers) as h where pipeline = %s and partition = 0"
    )
    assert [(row["name"], row["value"]) for row in world.rows(query, pipeline.name)] == [
        (name, value.encode() if isinstance(value, str) else value) for name, value in headers
    ]


def test_a_field_that_is_not_in_the_contract_stays_out_and_is_counted_once_a_message(world: World) -> None:
    pipeline = world.new_pipeline("append", partitions=4)
    view = {"event_id": "e", "visitor": "v", "url": "https://a.b/", "viewed_at": "2026-11-01T10:00:00Z"}
    more = [{}, {"x": 1}, {"x": 1, "y": {"z": [None]}}, {"_offset": 7, "_batch_id": 1}]
    (batch,) = world.send_and_drain(pipeline, [json.dumps(view | extra).encode() for extra in more])
    assert (batch.rows, batch.dead_letters, batch.unknown_fields) == (4, 0, 3)
    assert world.rows("select unknown_fields from tidegate.batch where batch_id = %s", batch.batch_id) == [
        {"unknown_fields": 3}
    ]
    assert [row["_offset"] for row in world.rows(f"select _offset from {pipeline.contract.row_table.name}")] == [0] * 4


def test_an_upsert_wants_a_key_that_is_text_and_lets_a_tombstone_delete(world: World) -> None:
    not_compacted = {"cleanup.policy": "delete"}  # a compacted topic takes no message without a key
    pipeline = world.new_pipeline("upsert", config=not_compacted)
    sent: list[tuple[bytes | None, bytes | None]] = [
        (b"C1", customer(1)),
        (None, customer(2)),
        (b"C3\xff", customer(3)),
        (b"C4\0", customer(4)),
        (b"C5", customer(5)),
        (b"C1", None),
        (b"nobody", None),
        (None, None),
        (b"\xff", None),
        (b"C5", b"hello"),
        (b"", customer(6)),
        ("Jürgen".encode(), customer(7)),
    ]
    places = world.send(pipeline, [value for _, value in sent], keys=[key for key, _ in sent], partition=0)
    (batch,) = world.drain(pipeline)
    letters = {
        item["offset"]: (item["stage"], item["error_class"], item["field"]) for item in world.dead_letters(pipeline)
    }
    assert letters == {
        1: ("decode", "MissingKey", "_key"),
        2: ("decode", "InvalidUtf8", "_key"),
        3: ("decode", "NulCharacter", "_key"),
        7: ("decode", "MissingKey", "_key"),
        8: ("decode", "InvalidUtf8", "_key"),
        9: ("decode", "InvalidJson", None),
    }
    assert [offset for _, offset in places] == list(range(12))
    kept = world.rows(f"select _key, customer_id from {pipeline.contract.row_table.name} order by customer_id")
    assert [tuple(row.values()) for row in kept] == [("C5", "C5"), ("", "C6"), ("Jürgen", "C7")]
    assert (batch.messages, batch.dead_letters) == (12, 6)


@pytest.mark.slow
def test_a_tombstone_takes_away_what_an_earlier_batch_wrote(world: World) -> None:
    pipeline = world.new_pipeline("upsert")
    world.send_and_drain(pipeline, [customer(1), customer(2)], keys=[b"C1", b"C2"], partition=0)
    world.send_and_drain(
        pipeline,
        [None, customer(2, name="new"), None, customer(1, name="again")],
        keys=[b"C1", b"C2", b"C9", b"C1"],
        partition=0,
    )
    kept = world.rows(f"select _key, name, _offset from {pipeline.contract.row_table.name} order by _key")
    assert [tuple(row.values()) for row in kept] == [("C1", "again", 5), ("C2", "new", 3)]
    (batch,) = world.send_and_drain(pipeline, [None], keys=[b"C1"], partition=0)
    assert (batch.messages, batch.dead_letters, len(world.table(pipeline))) == (1, 0, 1)


@pytest.mark.slow
def test_a_batch_of_nothing_but_poison_commits_below_the_limit(world: World) -> None:
    pipeline = world.new_pipeline()
    (batch,) = world.send_and_drain(pipeline, [b"poison"] * 40)
    assert (batch.messages, batch.rows, batch.dead_letters) == (40, 0, 40)
    assert world.position(pipeline) == {0: 10, 1: 10, 2: 10, 3: 10}
    assert world.drain(pipeline) == []


@pytest.mark.longest
def test_poison_at_the_limit_is_let_through_and_above_it_is_not(world: World) -> None:
    pipeline = world.new_pipeline(dead_letter_minimum=4, dead_letter_share=0.5)
    world.send(pipeline, [*[b"poison"] * 4, *transfers(4)])
    assert [batch.dead_letters for batch in world.drain(pipeline)] == [4]
    world.send(pipeline, [b"poison", *transfers(3, start=9)])
    assert [batch.dead_letters for batch in world.drain(pipeline)] == [1]
    world.send(pipeline, [*[b"poison"] * 4, *transfers(3, start=20)])
    with pytest.raises(Halt, match=r"4 of 7 messages of batch \d+ .*, 4 of the latest 8"):
        world.drain(pipeline)


@pytest.mark.longest
def test_slow_poison_is_read_in_reasonable_time(world: World) -> None:
    pipeline = world.new_pipeline()
    world.send(pipeline, [b"[" * 100_000, b"{" * 100_000, b'{"a":' * 100_000, b'"' + b"\\" * 900_000, *transfers(4)])
    with within(15):
        (batch,) = world.drain(pipeline)
    assert (batch.rows, batch.dead_letters) == (8, 4)


def customer(number: int, **more: Any) -> bytes:
    fields = {"customer_id": f"C{number}", "name": "Ada", "tier": "gold", "signed_up": "2026-11-01"}
    return json.dumps(fields | more).encode()
