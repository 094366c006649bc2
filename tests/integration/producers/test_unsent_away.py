"""Kafka is unavailable for longer than a message may take: undelivered messages come into the log once, by commands."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange
from platform_defs.producers.message import ID
from platform_defs.stack import stack
from tests.support.commands import tidegate
from tests.support.waiting import wait_for
from tests.support.world import World

TOPIC = "web.page_views"
PIPELINE = "web_page_views"
CALL = "from platform_defs.cli.main import main; main()"


@pytest.mark.longest
def test_what_is_sent_while_all_brokers_are_away_is_kept_to_the_message_and_comes_into_the_log_once(
    world: World,
) -> None:
    """A frozen broker writes the requests in its memory when it wakes: their outcome is rightly unknown."""
    assert tidegate("migrate").code == 0
    assert tidegate("produce", PIPELINE, "--count", "10", "--bad", "0").code == 0
    before = ids(world)
    command = [sys.executable, "-c", CALL, "produce", PIPELINE, "--rate", "2000", "-o", "json"]
    producing = subprocess.Popen([*command, "--option", "message.timeout.ms=4000"], stdout=-1, stderr=-1, text=True)
    wait_for(lambda: len(ids(world)) > len(before) + 1_000, "messages arrive")
    with frozen(broker()):
        message, complained = producing.communicate(timeout=120)
    sent = json.loads(message)
    assert producing.returncode == 1
    assert f"tidegate unsent send {PIPELINE}" in complained
    assert sent["unsent"] == sent["produced"] - sent["delivered"] > 0
    listed = tidegate("unsent", "list", PIPELINE, "-o", "json").document
    assert listed["unsent"] == sent["unsent"]
    first = tidegate("dlq", "send", PIPELINE, "-o", "json")
    assert first.code == 0, first.stderr
    assert first.document["found"] + first.document["sent"] == sent["unsent"]
    again = tidegate("dlq", "send", PIPELINE, "-o", "json").document
    assert (again["found"], again["sent"]) == (0, 0)
    after = ids(world)
    assert len(after) == len(set(after)) == len(before) + sent["produced"]


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def broker() -> int:
    """Return the pid of the session's only broker."""
    pid = stack.status().kafka.pid
    assert pid
    return pid


def ids(world: World) -> list[bytes]:
    """Return the ids of all messages in the topic."""
    options = world.endpoints.kafka_options()
    source, found = KafkaSource(options), list[bytes]()
    for number, held in KafkaBroker(options).describe(TOPIC).partitions.items():
        for block in source.read(OffsetRange(TOPIC, number, held.low, held.end)):
            found += [named for named in block.headers(ID).to_pylist() if named is not None]
    return found
