"""Direct publication under any order of events (tests/model/direct.py), and the faults that the model must find."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from platform_defs.engine.commit import direct_task
from platform_defs.engine.commit.direct_statements import DirectPublication, DirectSession, DirectTransaction
from platform_defs.engine.commit.publish_statements import PostgresPublication
from platform_defs.errors import Fenced, TidegateError
from platform_defs.ledger.ledger import Ledger
from platform_defs.postgres.connection import connect
from platform_defs.stack.endpoints import Endpoints
from tests.model.direct import MOMENTS, DirectMachine
from tests.model.mutants import OWNED, Mutate, _both, _instead, _never_short, _without

bounded = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]  # an Enum all the same
)


def _moved_elsewhere(self: DirectPublication) -> None:
    """Move the positions in a separate transaction."""
    with connect(str(_url[0])) as other:
        PostgresPublication(other, self.holder, self.contract, self.staged).move_positions()


def _copied_elsewhere(self: DirectTransaction, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Copy the rows in a separate transaction."""
    rows = _copy(self, batches, schema)
    for statement in ("COMMIT", "BEGIN"):
        self.session.connection.cursor().execute(statement)
    return rows


def _never_looks(self: DirectSession, wanted: Any) -> bool:  # the method's
    return False


def _careless(self: DirectPublication, counted: Any) -> None:
    """Publish whatever is planned."""
    try:
        _clear(self, counted)
    except Fenced:
        return


_url: list[str] = []
_copy: Callable[..., int] = DirectTransaction.copy
_clear: Callable[..., None] = vars(DirectPublication)["_clear_pending"]
_ANYWHERE = _without("move_positions", "p.next_offset = r.from_offset AND ")
MUTANTS: dict[str, Mutate] = {
    "positions move in another transaction than the rows": _instead(
        DirectPublication, "move_positions", _moved_elsewhere
    ),
    "rows commit before the rest": _instead(DirectTransaction, "copy", _copied_elsewhere),
    "a retry does not look whether its range is published": _instead(DirectSession, "is_published", _never_looks),
    "neither epoch nor owner is asked for": _without("lock_as_owner", OWNED),
    "it does not matter whether a range is planned still": _both(
        _ANYWHERE, _instead(DirectPublication, "_clear_pending", _careless)
    ),
    "a range stays planned": _without("clear_range", "WHERE NOT r @> %(range)s::jsonb"),
    "the log is not asked before a range is published": _instead(direct_task, "still_there", lambda *_: None),
    "coverage is not proven": _both(
        _instead(DirectPublication, "prove_coverage", lambda _: None),
        _instead(DirectPublication, "_record_ranges", _never_short(vars(PostgresPublication)["_record_ranges"])),
    ),
    "a try that was forgotten goes on": _instead(DirectPublication, "table_id", 0),
}
SOON = {"a range stays planned"}  # found within seconds; `.ci/run` runs it, the others are `longest`


@pytest.fixture
def machine(endpoints: Endpoints) -> type[DirectMachine]:
    """Return the state machine over the session's Postgres."""
    Ledger(endpoints.postgres_url).migrate()
    _url[:] = [endpoints.postgres_url]
    return type("Machine", (DirectMachine,), {"url": endpoints.postgres_url, "fired": Counter()})


@pytest.mark.parametrize(
    "examples",
    [pytest.param(2, marks=pytest.mark.slow), pytest.param(40, marks=[pytest.mark.longest, pytest.mark.timeout(1800)])],
)
def test_whatever_happens_to_tasks_the_invariants_hold(machine: type[DirectMachine], examples: int) -> None:
    run_state_machine_as_test(machine, settings=settings(bounded, max_examples=examples, derandomize=True))
    if examples == 40:
        ends = {"takeover": "Fenced", "another attempt": "Fenced", "created again": "left", "dies": "LedgerAway"}
        ends |= {"staging lost": "StagingLost", "dies late": "LedgerAway", "nothing": "done"}
        assert set(ends) == set(MOMENTS)
        assert set(machine.fired) >= {*(f"{moment}: {end}" for moment, end in ends.items()), "the rest"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SOON else pytest.mark.longest) for name in MUTANTS]
)
def test_a_fault_put_into_direct_publication_is_found(
    name: str, machine: type[DirectMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, TidegateError, psycopg.Error)):
        run_state_machine_as_test(machine, settings=settings(bounded, max_examples=100, derandomize=True))
