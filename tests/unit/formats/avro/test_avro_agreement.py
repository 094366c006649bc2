"""A block, a single message and verify's own reader agree on every message, whatever the schema and the bytes."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.formats.avro.avro_messages import Case, Readers, cases, contract_of, encode, fixed, record

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")  # numpy's, which would be text on stderr
SLOW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
)


def agree(readers: Readers, messages: Sequence[bytes], cuts: Sequence[int] = ()) -> int:
    """Assert that all readers agree; return the number of messages that were rows."""
    alone = readers.single(messages)
    assert readers.verification(messages) == alone
    for at_once, one in zip(readers.block(messages, gap=5), alone, strict=True):
        assert at_once is None or at_once == one
    edges = [0, *sorted(cuts), len(messages)]
    parts = [messages[first:last] for first, last in pairwise(edges)]
    assert [outcome for part in parts for outcome in readers.decoded(part)] == alone
    return sum(isinstance(outcome, tuple) for outcome in alone)


@pytest.mark.longest
@SLOW
@given(cases(), st.data())
def test_all_readers_agree_on_random_messages_of_random_schemas(case: Case, data: st.DataObject) -> None:
    values = data.draw(st.lists(case.values, min_size=1, max_size=8))
    messages = [encode(case.schema, value) for value in values] * data.draw(st.sampled_from([1, 1, 9]))
    cuts = data.draw(st.lists(st.integers(0, len(messages)), max_size=3))
    agree(Readers(case.contract, case.schema), messages, cuts)


def test_a_field_of_a_record_that_takes_no_byte_is_read() -> None:
    schema = record(c=record("C", f=fixed(0, "F")))
    readers = Readers(contract_of({"f": "bytes"}, f="c.f"), schema)
    assert agree(readers, [b"", b"a"]) == 1


@pytest.mark.slow
@SLOW
@given(cases(), st.data())
def test_all_readers_agree_on_messages_with_wrong_bytes(case: Case, data: st.DataObject) -> None:
    values = data.draw(st.lists(case.values, min_size=1, max_size=4))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    messages = [encode(case.schema, value) for value in values]
    agree(Readers(case.contract, case.schema), [mutated(message, rng) for message in messages for _ in range(20)])


def mutated(message: bytes, rng: random.Random) -> bytes:
    """Return the message with one to three random changes, mostly mistakes."""
    data = bytearray(message)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(data))
        match rng.randrange(6):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = rng.choice(ODD_BYTES)
            case 2:
                data[at : at + rng.randint(1, 4)] = rng.choice(ODD_BYTES)
            case 3 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 4:
                del data[at : at + rng.randint(1, 3)]
            case _:
                data[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(data)


ODD_BYTES = [
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\x80\x00",
    b"\xff" * 9 + b"\x01",
    b"\xff" * 9 + b"\x02",
    b"\x80" * 9 + b"\x00",
    b"\x80" * 10,
    b"\xff" * 8 + b"\x7f",
    b"\xfe\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\x00\x00\xc0\x7f",
    b"\xed\xa0\x80",
    b"\x01\x02",
]
