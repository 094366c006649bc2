"""Messages not delivered while Postgres was away: no byte is lost, and none is taken in twice."""

import os
import stat
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_defs.errors import BadInput, LedgerAway, NotDelivered
from platform_defs.producers.message import Message
from platform_defs.producers.undelivered import LogEnds, UnsentMessage, from_line, to_line
from platform_defs.producers.unsent.files import UnsentFiles, unsent_files
from platform_defs.producers.unsent.sink import UnsentSink
from platform_defs.stack import stack

BEFORE = LogEnds("bank.transfers", "cluster", "topic", (3, 0, 9_007_199_254_740_993))
CONTENT = st.none() | st.binary(max_size=50)
NAMES = st.text(st.characters(codec=None), max_size=10)  # with NUL and lone surrogates
HEADERS = st.lists(st.tuples(NAMES, CONTENT), max_size=4).map(tuple)


def message(number: int = 0, value: bytes | None = b"{}") -> UnsentMessage:
    failed_at = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)
    named = b"%032x" % number
    given = (UUID(int=number), "p", BEFORE, None, b"k", value, (("tidegate-id", named),), named, True, -192)
    return UnsentMessage(*given, "_MSG_TIMED_OUT", "unknown", failed_at, 1_795_350_600_000)


@pytest.fixture
def files(tmp_path: Path) -> UnsentFiles:
    return UnsentFiles(tmp_path / "unsent")


@given(CONTENT, CONTENT, HEADERS, st.binary(max_size=40), st.none() | st.integers(0, 2**31 - 1))
def test_every_byte_of_a_message_survives_its_line(
    key: bytes | None, value: bytes | None, headers: tuple, named: bytes, partition: int | None
) -> None:
    given = replace(message(), key=key, value=value, headers=headers, tidegate_id=named, partition=partition)
    line = to_line(given)
    assert line.count(b"\n") == 1
    assert from_line(line) == given
    assert given.size >= len(key or b"") + len(value or b"")


@given(st.data())
def test_a_line_that_is_not_whole_is_never_a_message(data: st.DataObject) -> None:
    line = to_line(message())
    assert from_line(line[: data.draw(st.integers(0, len(line) - 1))]) is None
    at = data.draw(st.integers(0, len(line) - 2))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte not in line[at : at + 1].lower()))
    assert from_line(line[:at] + bytes([other]) + line[at + 1 :]) is None


def test_what_was_appended_is_taken_in_once_in_order_and_then_the_file_is_gone(files: UnsentFiles) -> None:
    path, given = files.own(), [message(number) for number in range(7)]
    files.append(path, given[:4])
    files.append(path, given[4:])
    taken = list[UnsentMessage]()
    assert files.take_in(taken.extend) == 7
    assert taken == given
    assert files.take_in(taken.extend) == 0
    assert files.waiting() == []


def test_only_its_owner_may_read_the_file_and_its_folder(files: UnsentFiles) -> None:
    files.append(path := files.own(), [message()])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("cut", [1, 20, len(to_line(message()))])
def test_a_torn_last_record_is_left_out(files: UnsentFiles, cut: int) -> None:
    files.append(path := files.own(), [message(1), message(2)])
    os.truncate(path, path.stat().st_size - cut)
    taken = list[UnsentMessage]()
    assert files.take_in(taken.extend) == 1
    assert taken == [message(1)]
    assert files.waiting() == []


def test_a_file_damaged_in_the_middle_gives_the_others_and_stays_under_another_name(files: UnsentFiles) -> None:
    files.append(path := files.own(), [message(1), message(2), message(3)])
    path.write_bytes(path.read_bytes().replace(to_line(message(2)), to_line(message(2)).replace(b"e", b"f", 1)))
    taken = list[UnsentMessage]()
    with pytest.raises(BadInput, match=r"1 of the messages .* cannot be read") as refused:
        files.take_in(taken.extend)
    assert (refused.value.file, refused.value.line) == (str(path), 2)
    assert taken == [message(1), message(3)]
    assert path.with_suffix(".damaged").exists()
    assert files.waiting() == []


def test_a_file_stays_until_its_messages_are_committed(files: UnsentFiles) -> None:
    files.append(files.own(), [message()])

    def away(_: Sequence[UnsentMessage]) -> None:
        raise LedgerAway("away")

    with pytest.raises(LedgerAway):
        files.take_in(away)
    taken = list[UnsentMessage]()
    assert files.take_in(taken.extend) == 1


def test_a_failed_append_leaves_nothing_torn_before_what_comes_later(
    files: UnsentFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.append(path := files.own(), [message(1)])

    write = os.write

    def full(file: int, line: bytes) -> None:
        write(file, line[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            files.append(path, [message(2)])
    files.append(path, [message(3)])
    taken = list[UnsentMessage]()
    files.take_in(taken.extend)
    assert taken == [message(1), message(3)]


def test_several_that_take_in_while_others_append_lose_nothing_and_double_nothing(files: UnsentFiles) -> None:
    """A file is deleted under the lock that an appending process may be waiting for."""
    table = dict[UUID, UnsentMessage]()

    def append(_: int) -> list[UUID]:
        path, ids = files.own(), list[UUID]()
        for _ in range(20):
            kept = replace(message(), unsent_id=uuid4())
            files.append(path, [kept])
            ids.append(kept.unsent_id)
        return ids

    def take(_: int) -> int:
        return sum(
            files.take_in(lambda found: table.update({item.unsent_id: item for item in found})) for _ in range(30)
        )

    with ThreadPoolExecutor(6) as pool:
        appending, taking = [pool.submit(append, n) for n in range(3)], [pool.submit(take, n) for n in range(3)]
        ids = {key for done in appending for key in done.result()}
        taken = sum(done.result() for done in taking)
    taken += take(0)
    assert set(table) == ids
    assert taken == len(ids) == 60


@pytest.mark.parametrize("suffix", ["unsent", "damaged"])
def test_a_reset_of_the_stack_deletes_no_message_that_is_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    files = unsent_files()
    files.append(path := files.own(), [message()])
    left = path.rename(path.with_suffix(f".{suffix}"))
    with pytest.raises(BadInput, match=rf"1 file in .*unsent holds messages .* nothing was deleted.*{left.name}"):
        stack.reset()
    assert left.exists()
    left.unlink()
    stack.reset()
    assert not left.parent.exists()


def test_a_message_whose_headers_are_a_list_is_kept_as_it_was_sent(files: UnsentFiles) -> None:
    nowhere: Any = None
    sink = UnsentSink("p", "t", nowhere, nowhere, files, _before=BEFORE, _asked=time.monotonic(), _away_until=inf)
    headers: list[tuple[str, bytes | None]] = [("source", b"shop")]
    sink.begin()
    sink.attempt(Message(b"{}", headers=headers), b"id")
    headers.clear()
    sink.abort(NotDelivered("", code=-192, reason="_MSG_TIMED_OUT", outcome="unknown"))
    sink.keep(all_of_it=True)
    taken = list[UnsentMessage]()
    files.take_in(taken.extend)
    assert [item.headers for item in taken] == [(("source", b"shop"), ("tidegate-id", b"id"))]
