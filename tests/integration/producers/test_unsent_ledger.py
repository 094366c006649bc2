"""tidegate.unsent: undelivered messages are kept unchanged, once, and resolved by one run at a time."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from platform_defs.errors import PipelineHeld
from platform_defs.postgres.connection import connect
from platform_defs.producers.undelivered import UnsentMessage
from platform_defs.producers.unsent.files import UnsentFiles
from platform_defs.producers.unsent.ledger import Chosen, UnsentLedger
from platform_defs.prune.ledger import PruneLedger
from tests.support.waiting import wait_for
from tests.support.world import World
from tests.unit.producers.test_unsent_files import message

OPEN = ("not_written", "unknown")


@pytest.fixture
def ledger(world: World) -> UnsentLedger:
    world.ledger.migrate()
    return UnsentLedger(world.endpoints.postgres_url)


def messages(count: int) -> list[UnsentMessage]:
    pipeline = f"p{uuid4().hex[:10]}"
    return [replace(message(), unsent_id=uuid4(), pipeline=pipeline) for _ in range(count)]


ODD = (
    {"key": None, "value": None, "headers": ()},
    {"key": b"", "value": b"", "headers": (("", None), ("", b""))},
    {"key": bytes(range(256)), "value": b"\0" * 9, "headers": (("a\0b\ud800", b"\xff"),)},
    {"headers": (("large", bytes(2_000_000)),), "value": bytes(3_000_000), "partition": 7, "timestamp_ms": -1},
    {"before": replace(message().before, end_offsets=())},
)


def test_a_message_is_kept_and_given_back_byte_for_byte(ledger: UnsentLedger) -> None:
    given = [replace(plain, **odd) for plain, odd in zip(messages(len(ODD)), ODD, strict=True)]
    ledger.keep(given)
    with ledger.hold(given[0].pipeline) as held:
        assert held.messages([item.unsent_id for item in given]) == given
        found = held.ids(OPEN, 0, 10)
    assert [item.unsent_id for item in found] == [item.unsent_id for item in given]
    assert [item.log.before for item in found] == [item.before for item in given]


def test_a_file_that_is_taken_in_twice_adds_no_message_twice(ledger: UnsentLedger, tmp_path: Path) -> None:
    given, files = messages(3), UnsentFiles(tmp_path)
    files.append(path := files.own(), given)
    copy = path.read_bytes()
    assert files.take_in(ledger.keep) == 3
    path.write_bytes(copy)  # as after a crash before the file was deleted
    assert files.take_in(ledger.keep) == 3
    assert [line.messages for line in ledger.counts(given[0].pipeline, None, None)] == [3]


def test_while_one_command_holds_a_pipeline_another_is_refused(ledger: UnsentLedger) -> None:
    with ledger.hold("held"):
        with pytest.raises(PipelineHeld, match=r"is running on held.*Nothing was changed"), ledger.hold("held"):
            pass
        with ledger.hold("another"):
            pass
    with ledger.hold("held"):
        pass


def test_a_message_is_settled_once_and_what_became_of_it_is_listed(ledger: UnsentLedger) -> None:
    given = messages(4)
    ledger.keep(given)
    found, sent, failed, gone = (item.unsent_id for item in given)
    with ledger.hold(given[0].pipeline) as held:
        held.trying([sent, failed], 30.0)
        assert 0 < held.seconds_under_way() <= 30
        held.settle("found", "me", {found: (1, 17)})
        held.settle("sent", "me", {sent: (2, 18)})
        held.settle("found", "another", {sent: (0, 0)})
        held.fail({failed: (10, "MSG_SIZE_TOO_LARGE", "poison"), sent: (7, "REQUEST_TIMED_OUT", "unknown")})
        assert held.seconds_under_way() <= 0
        assert [item.unsent_id for item in held.ids(OPEN, 0, 10)] == [gone]
        chosen = Chosen(outcome="unknown")
        shown = ledger.discardable(given[0].pipeline, chosen)
        assert shown.messages == 1
        held.discard(chosen, shown, "tests are over", "me")
    lines = {line["unsent_id"]: line for line in ledger.lines(given[0].pipeline, None, None, 10)}
    assert {key: (line["status"], line["settled_offset"], line["tries"]) for key, line in lines.items()} == {
        found: ("found", 17, 1),
        sent: ("sent", 18, 2),
        failed: ("open", None, 2),
        gone: ("discarded", None, 1),
    }
    assert lines[failed]["outcome"] == "poison"
    assert lines[gone]["settled_reason"] == "tests are over"


def test_what_cannot_be_looked_for_is_marked_and_poison_is_left_out(ledger: UnsentLedger) -> None:
    one, other, blind, poison = messages(4)
    later = replace(one.before, end_offsets=(9,))
    ledger.keep([one, replace(other, before=later), replace(blind, id_sent=False), replace(poison, outcome="poison")])
    with ledger.hold(one.pipeline) as held:
        logs = [(item.unsent_id, item.log.before, item.log.blind) for item in held.ids(OPEN, 0, 10)]
    assert logs == [
        (one.unsent_id, one.before, False),
        (other.unsent_id, later, False),
        (blind.unsent_id, one.before, True),
    ]


def test_an_unknown_id_settles_nothing(ledger: UnsentLedger) -> None:
    with ledger.hold("nothing") as held:
        held.settle("sent", "me", {UUID(int=1): (0, 0)})
        assert held.seconds_under_way() == 0.0
        assert held.messages([UUID(int=1)]) == []


def test_two_prunes_of_one_pipeline_lock_what_they_sum_up_in_one_order(world: World, ledger: UnsentLedger) -> None:
    """Otherwise, each could wait for the other. While the first sum is locked, no other is locked yet."""
    logs = [replace(message().before, topic=f"topic {number:02}") for number in range(30)]
    given = [replace(item, before=before) for item, before in zip(messages(30), logs, strict=True)]
    url, pipeline = world.endpoints.postgres_url, given[0].pipeline

    def settled() -> None:
        ledger.keep([replace(item, unsent_id=uuid4()) for item in given])
        world.rows("update tidegate.unsent set settled_at = now(), settled_how = 'sent' where pipeline = %s", pipeline)

    of = b"select topic from tidegate.pruned_unsent where pipeline = %s and topic"
    with connect(url) as first, connect(url, "tidegate prune") as second, ThreadPoolExecutor(1) as threads:
        pruning = PruneLedger(second, pipeline, 0.0)
        settled()
        assert pruning.remove_unsent() == 30
        settled()
        with first.transaction():
            first.execute(of + b" = 'topic 00' for update", [pipeline])
            removed = threads.submit(pruning.remove_unsent)
            wait_for(lambda: _waits(world), "the prune waits for the first sum")
            free = first.execute(of + b" > 'topic 00' for update skip locked", [pipeline]).fetchall()
        assert len(free) == 29
        assert removed.result(30) == 30
    sums = world.rows("select messages from tidegate.pruned_unsent where pipeline = %s", pipeline)
    assert [row["messages"] for row in sums] == [2] * 30


def _waits(world: World) -> bool:
    asked = "select pid from pg_stat_activity where application_name = 'tidegate prune' and wait_event_type = 'Lock'"
    return bool(world.rows(asked))
