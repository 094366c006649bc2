"""The planner and the ledger under any order of events (tests/model/machine.py), and the faults it must find."""

from collections import Counter
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, find, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from hypothesis.strategies import SearchStrategy

from platform_defs import offsets
from platform_defs.engine.commit import audit
from platform_defs.engine.lease import take_over
from platform_defs.engine.plan import topic_view
from platform_defs.errors import TidegateError
from platform_defs.ledger.ledger import Ledger
from platform_defs.prune import ledger as prune_ledger
from platform_defs.stack.endpoints import Endpoints
from tests.model.expectations import DEATHS
from tests.model.machine import Machine
from tests.model.mutants import MUTANTS, PATHS, SOON
from tests.model.topic_events import EVENTS, messages

bounded = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]  # an Enum all the same
)

# Events that seldom come together: three more examples along each of these paths.
RARE = (
    ("produce", "publish_a_batch", "resolve_failed_checks"),
    ("produce", "stage_a_batch", "wake_a_straggler", "publish_a_batch"),
    ("produce", "publish_a_batch", "lose_the_session"),
    ("produce", "publish_a_batch", "change_the_contract", "start"),
    ("produce_garbage", "resolve_failed_checks", "publish_a_batch"),
    ("produce", *("plan_a_batch", "stop") * 4),
    ("produce", "stage_a_batch", "die_in_commit"),
    ("publish_a_batch", "create_again", "lead_back"),
    ("produce", "publish_a_batch", "add_partitions", "plan_a_batch", "rename", "plan_a_batch", "settle"),
    PATHS["a partition that the answer lacks is forgotten"],
    PATHS["messages of a later leader than the plan saw are published"],
    PATHS["a pruned range forgets its gaps"],
    PATHS["what a settlement has recorded as lost is pruned with what came after"],
    (*["produce"] * 3, "plan_a_batch", "split_the_batch", *["publish_a_batch"] * 2),
    (*["produce"] * 4, "stage_a_batch", "stage_ahead", *["publish_a_batch"] * 2),
    (*["produce"] * 4, "stage_a_batch", "stage_ahead", "move_a_position_by_hand", *["publish_a_batch"] * 2),
    (*["produce"] * 4, "stage_a_batch", "stage_ahead", "publish_a_batch", "create_again", "publish_a_batch", "settle"),
)
# The events that must have happened in at least one of all these examples, or the test has not tested them.
HAPPENED = {
    "published",
    "settled",
    "partitions added",
    "led back",
    "moved by hand",
    "staging lost",
    "straggler",
    "left out",
    "elected",
    "cut and written on",
    "truncated since planned",
    "refused: Fenced",
    "refused: Halt",
    "retention_passed",
    "topic_recreated",
    "cluster_switched",
    "too_many_dead_letters",
    "gate failed",
    "blocking_check_failed",
    "died too often",
    "session lost: cut",
    "session lost: ended",
    "session lost: crash",
    "session lost: restart",
    "failed check: retry",
    "failed check: publish",
    "failed check: dead-letters",
    "topic_changed",
    "contract applied",
    "older file refused",
    "stale",
    "stale at resolve",
    "pruned",
    "recut",
    "staged ahead",
    "staged ahead of its turn",
    "thrown away",
}


@pytest.fixture
def seed_given(request: pytest.FixtureRequest) -> int | None:
    """Return N of --hypothesis-seed=N, which draws other examples than the fixed usual ones, or None."""
    given: Any = request.config.getoption("--hypothesis-seed")
    return None if given is None else int(given)


@pytest.fixture
def machine(endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch) -> type[Machine]:
    """Return the state machine over the session's Postgres."""
    Ledger(endpoints.postgres_url).migrate()
    monkeypatch.setattr(offsets, "MESSAGES_WORTH_A_TASK", 2)  # so that small ranges are split, as large ones are
    monkeypatch.setattr(audit, "GATE_TRIES", 2)
    monkeypatch.setattr(take_over, "TRIES", DEATHS)
    monkeypatch.setattr(prune_ledger, "NEWEST", 1)
    monkeypatch.setattr(prune_ledger, "PAGE", 2)
    monkeypatch.setattr(topic_view, "SECONDS", 0)  # a broker that is behind stays so for as long as it is queried
    return type("Machine", (Machine,), {"url": endpoints.postgres_url, "fired": Counter()})


@pytest.mark.parametrize(
    "examples",
    [
        2,
        pytest.param(6, marks=pytest.mark.slow),
        pytest.param(40, marks=[pytest.mark.longest, pytest.mark.timeout(3600)]),
    ],
)
def test_whatever_happens_the_invariants_hold(
    machine: type[Machine], seed_given: int | None, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = machine if seed_given is None else seed(seed_given)(machine)
    chosen = settings(bounded, max_examples=examples, derandomize=seed_given is None)
    run_state_machine_as_test(factory, settings=chosen)
    if seed_given is None and examples == 40:
        for path in RARE:
            monkeypatch.setattr(machine, "path", path)
            run_state_machine_as_test(factory, settings=settings(chosen, max_examples=3))
        assert set(machine.fired) >= HAPPENED
        assert any(what.startswith("COMMIT lost") for what in machine.fired)
        assert any(what.startswith("COMMIT arrived") for what in machine.fired)


def look_for_a_fault(machine: type[Machine]) -> None:
    go_straight(machine(), machine.path)
    run_state_machine_as_test(machine, settings=settings(bounded, max_examples=200, derandomize=True))


def go_straight(model: Machine, path: tuple[str, ...], rounds: int = 3) -> None:
    """Fire the possible events of the path, in order and with nothing in between: the simplest example, before any that
    is drawn. Each message is a row, followed by an offset without a message.
    """
    try:
        model.begin(keyed=False, partitions=1, batch_messages=2)
        model.all_holds()
        for what in path * rounds:
            if EVENTS[what][1](model):
                getattr(model, what)(simplest)
                model.all_holds()
    finally:
        model.teardown()


def simplest(strategy: SearchStrategy[Any], _label: str = "") -> Any:
    alone = settings(database=None, deadline=None)
    return [(0, "row"), (0, "gap")] if strategy is messages else find(strategy, lambda _: True, settings=alone)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SOON else pytest.mark.longest) for name in PATHS]
)
def test_nothing_is_found_on_the_straight_way_where_there_is_no_fault(name: str, machine: type[Machine]) -> None:
    """Otherwise, that finding would be mistaken for the injected fault."""
    go_straight(machine(), PATHS[name])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SOON else pytest.mark.longest) for name in MUTANTS]
)
def test_a_fault_put_in_on_purpose_is_found(
    name: str, machine: type[Machine], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    MUTANTS[name](monkeypatch)
    monkeypatch.setattr(machine, "path", PATHS.get(name, ()))
    with pytest.raises((AssertionError, pytest.fail.Exception, TidegateError, psycopg.Error)):
        look_for_a_fault(machine)


def test_a_settlement_lets_no_new_partition_overtake_an_old_one(machine: type[Machine]) -> None:
    """Found by the model: what an upsert must read first was forgotten when retention took a part of it."""
    model = machine()
    try:
        model.begin(keyed=True, partitions=1, batch_messages=2)
        model.all_holds()
        for _ in range(4):
            model.log.produce(0, "key 1", "row")
        model._go_on("published")
        model.log.add_partition()
        model.log.produce(1, "key 1", "row")  # the newest, at the lowest offset
        model.all_holds()
        model._go_on("planned")
        model.log.now.parts[0].low = 3
        model.all_holds()
        model._go_on("published")  # it cannot be read any more
        model._go_on("published")
        assert model.halted == "retention_passed"
        model._settle("beginning", again=False)
        model._catch_up()
    finally:
        model.teardown()
