"""Faults put into the ledger and the engine on purpose: the model must find each of them
(tests/model/test_model.py).
"""

from collections.abc import Callable
from typing import Any, cast

import pytest
from psycopg import sql

from platform_defs.contract.model import Limits
from platform_defs.engine import audit, batch, publish
from platform_defs.engine.ports import Staged
from platform_defs.errors import StagingLost
from platform_defs.recent import Counted, Recent
from resources.postgres import publication
from resources.postgres.connection import queries
from resources.postgres.publication import PostgresPublication

# Not here, since no order of events needs it: the comparison of topic and cluster id in move_positions. A position's
# log is changed by settlements alone, which take the next epoch.
Mutate = Callable[[pytest.MonkeyPatch], None]
OWNED = " AND epoch = %(epoch)s AND owner = %(owner)s"


def _without(statement: str, part: str) -> Mutate:
    """The named statement of resources/postgres/sql without that part of it."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        assert part in queries()[statement]
        patch.setitem(cast("dict[str, Any]", queries()), statement, queries()[statement].replace(part, ""))

    return mutate


def _instead(owner: Any, name: str, replacement: Any) -> Mutate:
    return lambda patch: patch.setattr(owner, name, replacement)


def _never_short(step: Callable[[PostgresPublication], None]) -> Callable[[PostgresPublication], None]:
    """`step`, to which any number of rows is right."""

    def careless(self: PostgresPublication) -> None:
        try:
            step(self)
        except StagingLost:
            return

    return careless


def _never_afresh(limits: Limits, staged: Staged) -> Recent:
    """Dead letters that a person accepted go on counting."""
    return staged.pending.recent.plus(Counted(staged.messages, staged.dead_letters), limits.judged_messages)


MUTANTS: dict[str, Mutate] = {
    "positions are moved from wherever they are": _without("move_positions", "p.next_offset = r.from_offset AND "),
    "neither epoch nor owner is asked for": _without("lock_as_owner", OWNED),
    "a halted pipeline can be held": _without("lock_as_owner", " AND state = 'active'"),
    "whoever was fenced can halt": _without("halt", OWNED),
    "the pending batch is not cleared": _without("clear_pending", "pending = NULL, "),
    "rows of attempts that lost are published": _instead(
        PostgresPublication, "winners", property(lambda _: sql.SQL("true"))
    ),
    "coverage is not proven": _instead(PostgresPublication, "prove_coverage", lambda _: None),
    "rows are not counted": _instead(PostgresPublication, "write_rows", _never_short(PostgresPublication.write_rows)),
    "the batches before do not count": _without("clear_pending", ", recent_messages = %(recent)s"),
    "what a person accepted goes on counting": _instead(publication, "recent_with", _never_afresh),
    "a red gate is published": _instead(audit, "red_gate", lambda *_: None),
    "a gate stays red for ever": _without("note_red_gate", " + 1"),
    "what a person set aside is published": _instead(batch, "_set_aside", lambda _: None),
    "the log is not asked before publish": _instead(publish, "still_readable", lambda *_: None),
}
