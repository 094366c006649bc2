"""The outbox of lineage events: in order by pipeline, each once at a time, none delayed for ever."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from platform_defs.ledger.ledger import Ledger
from platform_defs.lineage.events import TRIES, Receiver, emit_waiting, outbox
from platform_defs.stack.endpoints import Endpoints

Answer = Callable[[dict[str, Any]], int]


class Receiving(ThreadingHTTPServer):
    """A receiver that responds with `answer`, and records what it took."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: list[tuple[str, int]] = []
        self.asked = 0
        self.answer: Answer = lambda _: 201


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast("Receiving", self.server)
        event = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.asked += 1
        status = server.answer(event)
        if status < 300:
            server.taken.append((event["pipeline"], event["number"]))
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # the base class's name
        """Do not log to stderr."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiving]:
    with Receiving() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_address[1]}")
        yield server
        server.shutdown()


@pytest.fixture
def url(endpoints: Endpoints) -> str:
    Ledger(endpoints.postgres_url).migrate()
    return endpoints.postgres_url


def pipeline_with(url: str, events: int) -> str:
    """Return the name of a new pipeline with `events` unsent events."""
    name = f"t{uuid4().hex[:10]}"
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("insert into tidegate.pipeline (name) values (%s)", [name])
        session.execute(
            "with b as (insert into tidegate.batch (batch_id, pipeline, epoch, owner, messages, rows, dead_letters,"
            " unknown_fields, contract_version, timings) select nextval('tidegate.batch_id'), %s, 1, gen_random_uuid(),"
            " 0, 0, 0, 0, '1', '{}' returning batch_id, pipeline)"
            " insert into tidegate.lineage_event (batch_id, pipeline, event) select batch_id, pipeline,"
            " jsonb_build_object('pipeline', pipeline, 'number', n) from b, generate_series(1, %s) as n",
            [name, events],
        )
    return name


def time_passes(url: str, name: str) -> None:
    """Let all waiting retries be due."""
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("update tidegate.lineage_event set retry_at = null where pipeline = %s", [name])


def test_events_of_a_pipeline_leave_in_order_and_once(url: str, receiver: Receiving, tmp_path: Path) -> None:
    name = pipeline_with(url, 250)
    assert emit_waiting(url, name, tmp_path, Receiver()).sent == 250
    assert receiver.taken == [(name, number) for number in range(1, 251)]
    assert emit_waiting(url, name, tmp_path, Receiver()).sent == 0
    assert Ledger(url).lineage_backlog([name]) == {}


def test_two_runs_never_send_the_same_event_at_once(url: str, receiver: Receiving, tmp_path: Path) -> None:
    name = pipeline_with(url, 20)
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(emit_waiting, url, name, tmp_path, Receiver()) for _ in range(4)]
        assert sum(done.result().sent for done in sent) == 20
    assert receiver.taken == [(name, number) for number in range(1, 21)]


def test_who_sends_holds_up_no_one_and_no_other_pipeline(url: str, receiver: Receiving, tmp_path: Path) -> None:
    name, other = pipeline_with(url, 1), pipeline_with(url, 1)
    with outbox(url, name) as ours:
        assert ours
        assert emit_waiting(url, name, tmp_path, Receiver()).sent == 0
        assert emit_waiting(url, other, tmp_path, Receiver()).sent == 1
    assert emit_waiting(url, name, tmp_path, Receiver()).sent == 1


def test_an_event_that_is_refused_is_given_up_after_some_tries_and_the_others_leave(
    url: str, receiver: Receiving, tmp_path: Path
) -> None:
    name, other = pipeline_with(url, 3), pipeline_with(url, 1)
    receiver.answer = lambda event: 422 if (event["pipeline"], event["number"]) == (name, 2) else 201
    for n in range(TRIES):
        emitted = emit_waiting(url, name, tmp_path, Receiver())
        assert emitted.sent == (n == 0)
        assert "422" in (emitted.problem or "")
        assert n or emit_waiting(url, other, tmp_path, Receiver()).sent == 1
        if n < TRIES - 1:
            assert emit_waiting(url, name, tmp_path, Receiver()).sent == 0, "it waits before it is tried again"
            assert (name, 3) not in receiver.taken, "in order"
            time_passes(url, name)
    emit_waiting(url, name, tmp_path, Receiver())
    assert receiver.taken[-1] == (name, 3)
    backlog = Ledger(url).lineage_backlog([name])[name]
    assert (backlog.waiting, backlog.given_up) == (0, 1)
    assert "422" in (backlog.problem or "")


@pytest.mark.parametrize("status", [401, 404, 429, 501])
def test_a_receiver_that_is_away_or_not_set_up_right_is_waited_for_and_nothing_is_given_up(
    url: str, receiver: Receiving, tmp_path: Path, status: int
) -> None:
    name, now = pipeline_with(url, 2), [0.0]
    seen, receiver.answer = Receiver(clock=lambda: now[0]), lambda _: status
    pauses = []
    for _ in range(TRIES + 3):
        assert emit_waiting(url, name, tmp_path, seen).sent == 0
        asked = receiver.asked
        assert emit_waiting(url, name, tmp_path, seen).sent == 0
        assert receiver.asked == asked, "it is left alone for a while, by every pipeline of this process"
        pauses.append(seen.asked_again - now[0])
        now[0] = seen.asked_again
        time_passes(url, name)
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    backlog = Ledger(url).lineage_backlog([name])[name]
    assert (backlog.waiting, backlog.given_up) == (2, 0)
    receiver.answer = lambda _: 201
    assert emit_waiting(url, name, tmp_path, seen).sent == 2
    assert receiver.taken == [(name, 1), (name, 2)]


def test_why_events_wait_is_said_without_the_password_of_the_receiver(
    url: str, receiver: Receiving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, name = receiver.server_address[1], pipeline_with(url, 1)
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://lineage:s3cret@127.0.0.1:{port}")
    monkeypatch.setenv("OPENLINEAGE_ENDPOINT", "api/v1/lineage?code=k3y")
    receiver.answer = lambda _: 401
    problem = emit_waiting(url, name, tmp_path, Receiver()).problem or ""
    with psycopg.connect(url) as connection:
        asked = "SELECT problem FROM tidegate.lineage_event WHERE pipeline = %s"
        (kept,) = connection.execute(asked, [name]).fetchone() or ("",)
    for message in (problem, kept):
        assert f"401 Client Error: Unauthorized for url: http://***@127.0.0.1:{port}/api/v1/lineage?***" in message
