"""The options that a producer gets, and those that are refused."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.errors import BadInput
from platform_defs.producer_options.config import choose, unused
from platform_defs.producer_options.options import OPTIONS, PROMISED
from platform_defs.producer_options.partitioners import WORDS, chooser, librarys, one_partition
from platform_defs.producer_options.presets import PRESETS
from platform_defs.producer_options.values import read_option
from tests.support.kafka.librdkafka import Configuration


def test_the_later_word_counts() -> None:
    chosen = choose("asynchronous", {"linger.ms": 50, "batch.size": 1}, {"linger.ms": "60"}, {"linger.ms": 70})
    assert (chosen.options["linger.ms"], chosen.options["batch.size"]) == (70, 1)
    assert choose("asynchronous", {"linger.ms": 50}, {"linger.ms": "60"}).options["linger.ms"] == 60
    assert choose("asynchronous", {"linger.ms": 50}).options["linger.ms"] == 50
    assert choose("asynchronous").options["linger.ms"] == 20


@pytest.mark.parametrize("name", [*PROMISED, "request.required.acks", "message.send.max.retries"])
def test_the_environment_changes_no_promise(name: str) -> None:
    assert choose("asynchronous", {}, {name: "1"}) == choose("asynchronous")
    assert unused({name, "linger.ms", "security.protocol"}) == [name]


def test_the_environment_may_tune_by_any_name_that_the_library_has() -> None:
    assert choose("asynchronous", {}, {"queue.buffering.max.ms": "7"}).options["linger.ms"] == 7
    assert choose("asynchronous", {}, {"security.protocol": "ssl"}) == choose("asynchronous")


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        ("asynchronous", {"acks": 1}, "`acks` must be set to `all` when `enable.idempotence` is true"),
        ("synchronous", {"max.in.flight": 6}, "`max.in.flight` must be set <= 5 when"),
        ("transactional", {"message.timeout.ms": 120_000}, "must be set <= `transaction.timeout.ms`"),
        ("transactional", {"enable.idempotence": False}, "`transactional.id` requires `enable.idempotence=true`"),
        ("leader", {"transactional.id": "t"}, "requires the preset transactional"),
        ("asynchronous", {"linger.ms": 120_000}, "`message.timeout.ms` must be greater than `linger.ms`"),
    ],
)
def test_options_that_contradict_each_other_are_refused(preset: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(BadInput, match=preset) as refused:
        choose(preset, given=options)
    assert message in str(refused.value)
    assert refused.value.field in options


def test_a_preset_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(BadInput, match="did you mean asynchronous"):
        choose("asyncronous")
    with pytest.raises(BadInput, match="the presets are fire_and_forget, leader"):
        choose("x")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("acks", 2, "acks must be one of 0, 1, all, not 2"),
        ("acks", "00", "acks must be one of 0, 1, all"),
        ("linger.ms", -5, "linger.ms must be a whole number from 0 to 900000, not -5"),
        ("linger.ms", True, "linger.ms must be a whole number"),
        ("linger.ms", "soon", "linger.ms must be a whole number"),
        ("enable.idempotence", "maybe", "enable.idempotence must be one of true, false"),
        ("linger.msx", 5, "did you mean linger.ms"),
        ("security.protocol", "ssl", "security.protocol is a connection setting, not a producer option"),
        (
            "partitioner",
            "round_robin",
            "partitioner must be one of keyed, keyed-crc32, sticky, round-robin, partition=N",
        ),
        ("client.id", "", "client.id must be text"),
    ],
)
def test_what_is_no_option_or_no_value_of_it_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_option(name, value)
    assert message in str(refused.value)


def test_values_are_read_in_each_of_their_spellings() -> None:
    assert read_option("request.required.acks", "-1") == ("acks", "all")
    assert read_option("acks", "0") == ("acks", 0)
    assert read_option("queue.buffering.max.ms", "50") == ("linger.ms", 50)
    assert read_option("enable.idempotence", "True") == ("enable.idempotence", True)


@given(st.sampled_from(sorted(OPTIONS)), st.integers() | st.text() | st.booleans() | st.none())
def test_what_is_read_the_library_takes(name: str, value: object) -> None:
    try:
        option, read = read_option(name, value)
    except BadInput:
        return
    library = librarys(str(read)) if option == "partitioner" else read
    assert library is None or "\0" in str(read) or Configuration().refusal(option, library) == ""


def test_keys_stay_where_tidegate_has_always_put_them() -> None:
    choose_of = chooser("keyed-crc32", 4)
    assert [choose_of(key) for key in (b"a", b"b", b"")] == [zlib.crc32(key) % 4 for key in (b"a", b"b", b"")]
    assert [choose_of(None) for _ in range(5)] == [0, 1, 2, 3, 0]


def test_round_robin_looks_at_no_key_and_a_partition_is_that_partition() -> None:
    in_turn, third = chooser("round-robin", 3), chooser("partition=2", 3)
    assert [in_turn(key) for key in (b"a", None, b"a", b"a")] == [0, 1, 2, 0]
    assert {third(key) for key in (b"a", None)} == {2}


def test_a_partitioner_is_the_librarys_or_ours() -> None:
    ours = ("keyed-crc32", "round-robin", "partition=7")
    assert [librarys(name) for name in ours] == [None] * 3
    assert [librarys(name) for name in ("keyed", "sticky", "murmur2")] == ["murmur2_random", "random", "murmur2"]
    assert one_partition("partition=x") is None
    assert {*WORDS} >= {*ours[:2]}


def test_a_preset_of_the_table_contradicts_itself_nowhere() -> None:
    assert [choose(name).preset for name in PRESETS] == [*PRESETS.values()]
