"""Faults injected into the ledger and the engine: the model must find each of them (tests/model/test_model.py)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from psycopg import sql

from platform_defs import offsets
from platform_defs.contract.model.contract import Contract, Limits
from platform_defs.contract.model.dead_letter_window import Counted, Recent
from platform_defs.engine import batch, prefetch
from platform_defs.engine.commit import audit, publish, publish_statements
from platform_defs.engine.commit.publish_statements import PostgresPublication
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.engine.lease import table_claims
from platform_defs.engine.lease.lease import PostgresLease
from platform_defs.engine.plan import planning, topic_view
from platform_defs.engine.plan.planning import BatchPlan, first_positions
from platform_defs.engine.run_context import RunContext
from platform_defs.engine.staging import staging_tables
from platform_defs.errors import StagingLost
from platform_defs.ledger.contract_ledger import ContractLedger
from platform_defs.ledger.ledger import positions_of
from platform_defs.offsets import PendingBatch, Position
from platform_defs.postgres.connection import queries
from platform_defs.prune import ledger as prune_ledger
from platform_defs.resolve.ledger import PartitionChange
from platform_defs.resolve.settled_log import Decision, SettledLog

# Not here, since no order of events needs it: the comparison of topic and cluster id in move_positions. Only
# settlements change a position's log, and they take the next epoch. Nor the comparison of forget_position with the new
# log: a settlement rests on a response that has every partition.
Mutate = Callable[[pytest.MonkeyPatch], None]
SAME_SERVER = "server_started IS NOT DISTINCT FROM pg_postmaster_start_time()"
NOTED = "VALUES (%(pipeline)s, %(digest)s, %(document)s, %(dropped)s, %(applied_by)s)"
NOTED_ONCE = """SELECT %(pipeline)s, %(digest)s, %(document)s, %(dropped)s, %(applied_by)s WHERE NOT EXISTS (
    SELECT FROM tidegate.contract_application WHERE pipeline = %(pipeline)s AND digest = %(digest)s)"""
NEWEST = "max(number) FROM tidegate.contract_application AS a JOIN pinned AS p ON a.digest = p.contract_digest"
OLDEST = "min(number) FROM tidegate.contract_application AS a"
OWNED = " AND epoch = %(epoch)s AND owner = %(owner)s"


def _with(statement: str, part: str, instead: str) -> Mutate:
    """Mutate the named statement: replace `part` with `instead`."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        assert part in queries()[statement]
        patch.setitem(cast("dict[str, Any]", queries()), statement, queries()[statement].replace(part, instead))

    return mutate


def _without(statement: str, part: str) -> Mutate:
    return _with(statement, part, "")


def _instead(owner: Any, name: str, replacement: Any) -> Mutate:
    return lambda patch: patch.setattr(owner, name, replacement)


def _both(one: Mutate, other: Mutate) -> Mutate:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        one(patch)
        other(patch)

    return mutate


def _never_short(step: Callable[[PostgresPublication], None]) -> Callable[[PostgresPublication], None]:
    """Return `step`, changed to accept any number of rows."""

    def careless(self: PostgresPublication) -> None:
        try:
            step(self)
        except StagingLost:
            return

    return careless


def _careless_in_recording_ranges(patch: pytest.MonkeyPatch) -> None:
    """Accept any number of recorded ranges: they are counted as they are recorded, too."""
    step: Any = vars(PostgresPublication)["_record_ranges"]
    patch.setattr(PostgresPublication, "_record_ranges", _never_short(step))


def _never_afresh(limits: Limits, staged: Staged) -> Recent:
    """Keep counting dead letters that a person accepted."""
    return staged.pending.recent.plus(Counted(staged.messages, staged.dead_letters), limits.window_messages)


def _of_the_contracts_topic(self: PostgresLease) -> list[Position]:
    """Query as older versions did: a renamed topic looks like a pipeline that has not run yet."""
    found = positions_of(self.connection, [self.holder.pipeline]).get(self.holder.pipeline, [])
    return [at for at in found if at.topic == self.contract.topic]


def _forgetful(patch: pytest.MonkeyPatch) -> None:
    """Settle as older versions did: on the first response, forgetting the partitions that it lacks."""

    def same_log(self: SettledLog, *_: object) -> Decision:
        gone = [(n, at) for n, at in self.positions if n not in self.view.partitions]
        return Decision("", tuple(PartitionChange(n, at, None) for n, at in gone), log=("", ""))

    patch.setattr(topic_view, "describe", lambda broker, topic, _, **__: broker.describe(topic))
    patch.setattr(SettledLog, "_same_log", same_log)


def _wherever_positions_are(self: prefetch.SpeculativeBatch, plan: BatchPlan) -> bool:
    return _IS_NEXT(self, replace(plan, positions=self.positions))


def _unjudged(
    contract: Contract, context: RunContext, tasks: int, speculative: prefetch.SpeculativeBatch | None = None
) -> Any:
    """Take a speculative batch as the next batch, whatever the topic is by now."""
    if speculative is None or context.ledger.pending() is not None:
        return _PLAN_BATCH(contract, context, tasks)
    return context.ledger.fix(
        context.broker.describe(contract.topic), speculative.batch.ranges, speculative.batch.batch_id
    )


def _of_every_try(self: PostgresLease, *, keep: int | None = None) -> None:  # it is not kept
    _SWEEP(self)


def _of_any_batch(self: prefetch.Prefetch, batch: PendingBatch) -> Any:
    """Take the speculative batch's rows and coverage under the ranges of another batch."""
    return _TAKE(self, replace(batch, batch_id=self.speculative.batch.batch_id if self.speculative else batch.batch_id))


def _of_any_leader(staged: Staged) -> list[Position]:
    """Accept messages from a log that was truncated and rewritten since the batch was planned."""
    ranges = tuple(replace(item, end_epoch=None) for item in staged.pending.ranges)
    return _READ_UP_TO(replace(staged, pending=replace(staged.pending, ranges=ranges)))


_READ_UP_TO = publish.read_up_to
_IS_NEXT, _PLAN_BATCH, _SWEEP, _TAKE = (
    prefetch.SpeculativeBatch.is_next,
    batch.plan_batch,
    PostgresLease.sweep,
    prefetch.Prefetch.take,
)


MUTANTS: dict[str, Mutate] = {
    "positions are moved from wherever they are": _without("move_positions", "p.next_offset = r.from_offset AND "),
    "neither epoch nor owner is asked for": _without("lock_as_owner", OWNED),
    "a halted pipeline can be held": _without("lock_as_owner", " AND state = 'active'"),
    "whoever was fenced can halt": _without("halt", OWNED),
    "the pending batch is not cleared": _with("clear_pending", "batch_id')) END", "batch_id')) ELSE pending END"),
    "a commit does not forget how often its batch failed": _without("clear_pending", "batch_failures = 0, "),
    "a system that is away counts against a batch": _with("back_off", "'never' THEN false", "'never' THEN true"),
    "a session that was cut counts against a batch": _with("back_off", "h.owner =", "false AND h.owner ="),
    "a crash of Postgres counts for nothing": _with("back_off", "h.owner =", "true OR h.owner ="),
    "a session that was ended counts for nothing": _with("back_off", "'unless stopped'", "''"),
    "a stopped server counts against a batch": _with("back_off", SAME_SERVER, "true"),
    "a run that dies counts for nothing": _with("take_over", SAME_SERVER, "false"),
    "a run that is fenced alive has died": _with("take_over", "tidegate.alive", "tidegate.alive WHERE false"),
    "what ends with its server has died": _with("take_over", SAME_SERVER, "true"),
    "rows of attempts that lost are published": _instead(
        PostgresPublication, "winners", property(lambda _: sql.SQL("true"))
    ),
    "what other tries left is audited": _instead(
        staging_tables, "_OF_WINNERS", "SELECT * FROM {} WHERE {} IS NOT NULL"
    ),
    "rows of offsets that were not planned are published": _instead(
        PostgresPublication,
        "winners",
        property(lambda self: sql.SQL("_attempt = ANY({})").format(sql.Literal(list(self.staged.winners)))),
    ),
    "positions keep the epoch of an earlier leader": _without("move_positions", "leader_epoch = r.leader_epoch,"),
    "coverage is not proven": _both(
        _instead(PostgresPublication, "prove_coverage", lambda _: None),
        _careless_in_recording_ranges,
    ),
    "rows are not counted": _instead(PostgresPublication, "write_rows", _never_short(PostgresPublication.write_rows)),
    "a table that was left out is taken back": _instead(table_claims.Output, "refuse_outdated", lambda *_: None),
    "a batch is noted for tables that it left out": _without("write_batch", " AND table_name = ANY(%(tables)s)"),
    "the batches before do not count": _without("clear_pending", ", recent_messages = %(recent)s"),
    "what a person accepted goes on counting": _instead(publish_statements, "recent_with", _never_afresh),
    "a failed check is published": _instead(audit, "failed_checks", lambda *_: None),
    "failed checks are retried for ever": _without("note_failed_checks", " + 1"),
    "what a person set aside is published": _instead(batch, "_set_aside", lambda _: None),
    "the log is not asked before publish": _instead(publish, "still_there", lambda *_: None),
    "messages of a later leader than the plan saw are published": _instead(publish, "read_up_to", _of_any_leader),
    "what was read must still be there": _instead(publish, "still_there", offsets.check_positions),
    "added partitions overtake those that wait": _instead(planning, "next_added", first_positions),
    "positions of another topic are not seen": _instead(PostgresLease, "positions", _of_the_contracts_topic),
    "a partition that the answer lacks is forgotten": _forgetful,
    "the rest of a batch that was cut is planned again": _instead(publish_statements, "next_part", lambda _: None),
    "a batch is cut beside a run": _without("reactivate", "epoch = epoch + 1, owner = NULL, "),
    "a contract is applied beside a run": _instead(ContractLedger, "fence", lambda _: None),
    "a batch names another contract than its own": _with("write_batch", "(SELECT contract_digest FROM pinned)", "''"),
    "a batch names an application of another contract": _with("write_batch", NEWEST, OLDEST),
    "a version need not fit where a run took the one before": _with("record_contract", "was.by_command", "false"),
    "a contract that is taken again is not noted": _with("record_contract", NOTED, NOTED_ONCE),
    "a log that was read before is read again": _instead(SettledLog, "_first", lambda _self, _number, held: held.low),
    "a commit is not counted": _without("clear_pending", "rows_total = rows_total + %(rows)s,"),
    "what was staged ahead is read from where positions were": _instead(
        prefetch.SpeculativeBatch, "is_next", _wherever_positions_are
    ),
    "what was staged ahead is published of whichever topic": _instead(batch, "plan_batch", _unjudged),
    "what was staged ahead is of an earlier leader": _instead(prefetch, "_is_led_as_before", lambda *_: True),
    "a sweep takes what is staged ahead": _instead(PostgresLease, "sweep", _of_every_try),
    "what was staged ahead is taken for any batch": _instead(prefetch.Prefetch, "take", _of_any_batch),
    "what the topic still has is pruned": _with("old_batches", "r.until_offset > coalesce(log.low, 0)", "false"),
    "a pruned range forgets its gaps": _with("write_pruned_range", "p.gaps + excluded.gaps", "p.gaps"),
    "what was pruned before is not added to": _with("write_pruned_range", "excluded.until_offset", "p.until_offset"),
    "what a settlement has recorded as lost is pruned with what came after": _instead(
        prune_ledger.PruneLedger, "lost_after", lambda _: []
    ),
}

# The order of events that reveals some of them: without it, they would be found after minutes.
PATHS: dict[str, tuple[str, ...]] = {
    "neither epoch nor owner is asked for": ("produce", "stage_a_batch", "overtake"),
    "a halted pipeline can be held": ("publish_a_batch", "create_again", "publish_a_batch", "start"),
    "whoever was fenced can halt": ("start", "be_refused"),
    "rows of attempts that lost are published": ("produce", "stage_a_batch", "publish_a_batch"),
    "what other tries left is audited": ("produce", "stage_a_batch", "wake_a_straggler"),
    "rows of offsets that were not planned are published": ("produce", "stage_a_batch", "lose_staging"),
    "rows are not counted": ("produce", "stage_a_batch", "lose_staging"),
    "coverage is not proven": ("produce", "stage_a_batch", "lose_staging"),
    "the batches before do not count": ("produce_garbage", "publish_a_batch", "publish_a_batch", "settle"),
    "what a person accepted goes on counting": ("produce_garbage", "publish_a_batch", "settle", "publish_a_batch"),
    "what a person set aside is published": ("produce", "publish_a_batch", "resolve_failed_checks", "publish_a_batch"),
    "failed checks are retried for ever": ("publish_a_batch", "resolve_failed_checks"),
    "a commit does not forget how often its batch failed": ("produce", "plan_a_batch", "stop", "publish_a_batch"),
    "a system that is away counts against a batch": ("produce", "plan_a_batch", "stop", "settle"),
    "a session that was cut counts against a batch": ("produce", "plan_a_batch", "lose_the_session", "settle"),
    "a stopped server counts against a batch": ("produce", "plan_a_batch", "lose_the_session", "settle"),
    "a crash of Postgres counts for nothing": ("produce", "plan_a_batch", "lose_the_session", "settle"),
    "a session that was ended counts for nothing": ("produce", "plan_a_batch", "lose_the_session", "settle"),
    "a run that dies counts for nothing": ("produce", "plan_a_batch", "stop", "start"),
    "a run that is fenced alive has died": ("produce", "plan_a_batch", "start"),
    "what ends with its server has died": ("produce", "plan_a_batch", "lose_the_session", "start"),
    "a table that was left out is taken back": ("publish_a_batch", "change_the_contract", "produce"),
    "a batch is noted for tables that it left out": ("publish_a_batch", "change_the_contract", "produce"),
    "positions keep the epoch of an earlier leader": ("produce", "elect", "publish_a_batch"),
    "added partitions overtake those that wait": (
        "produce",
        "publish_a_batch",
        "add_partitions",
        "produce",
        "plan_a_batch",
        "add_partitions",
        "produce",
        "publish_a_batch",
    ),
    "positions of another topic are not seen": ("publish_a_batch", "rename", "plan_a_batch"),
    "the log is not asked before publish": ("produce", "stage_a_batch", "create_again", "publish_a_batch", "settle"),
    "messages of a later leader than the plan saw are published": (
        "produce",
        "plan_a_batch",
        "cut_and_write_on",
        "publish_a_batch",
    ),
    "what was read must still be there": (
        "produce",
        "stage_a_batch",
        "delete_records",
        "delete_records",
        "publish_a_batch",
        "settle",
    ),
    "a partition that the answer lacks is forgotten": (
        "publish_a_batch",
        "produce",
        "delete_records",
        "delete_records",
        "plan_a_batch",
        "fall_behind",
        "settle",
    ),
    "the rest of a batch that was cut is planned again": (
        *["produce"] * 3,
        "plan_a_batch",
        "split_the_batch",
        "publish_a_batch",
    ),
    "a batch is cut beside a run": ("produce", "stage_a_batch", "split_the_batch", "be_refused"),
    "a contract is applied beside a run": ("produce", "stage_a_batch", "apply_a_contract", "be_refused"),
    "a version need not fit where a run took the one before": (
        *("produce", "publish_a_batch", "apply_a_contract"),
        *("rename", "publish_a_batch", "settle", "publish_a_batch", "stop", "start_with_an_older_file"),
    ),
    "a contract that is taken again is not noted": ("produce", "publish_a_batch", "take_turns"),
    "a batch names an application of another contract": (
        *("produce", "publish_a_batch", "take_turns", "produce", "publish_a_batch"),
    ),
    "a log that was read before is read again": ("produce", "publish_a_batch", "rename", "plan_a_batch", "settle"),
    "what was staged ahead is read from where positions were": (
        *(*["produce"] * 3, "stage_a_batch", "stage_ahead", "move_a_position_by_hand", *["publish_a_batch"] * 2),
    ),
    "what was staged ahead is published of whichever topic": (
        *(*["produce"] * 3, "stage_a_batch", "stage_ahead", "publish_a_batch", "create_again", "publish_a_batch"),
        "settle",
    ),
    "what was staged ahead is of an earlier leader": (
        *(*["produce"] * 3, "stage_a_batch", "stage_ahead", "publish_a_batch", "elect", "publish_a_batch"),
    ),
    "a sweep takes what is staged ahead": (
        *(*["produce"] * 3, "stage_a_batch", "stage_ahead", *["publish_a_batch"] * 2),
    ),
    "what was staged ahead is taken for any batch": (
        *(*["produce"] * 3, "stage_a_batch", "stage_ahead", "move_a_position_by_hand", *["publish_a_batch"] * 2),
    ),
    "what the topic still has is pruned": ("produce", "publish_a_batch", "prune"),
    "a pruned range forgets its gaps": ("produce", "publish_a_batch", *["delete_records"] * 2, "prune"),
    "what was pruned before is not added to": ("produce", "publish_a_batch", *["delete_records"] * 2, "prune"),
    "what a settlement has recorded as lost is pruned with what came after": (
        *("produce", "publish_a_batch", "rename", "plan_a_batch", "settle", "rename", "plan_a_batch", "settle"),
        *("produce", "publish_a_batch", "produce", "publish_a_batch", *["delete_records"] * 4, "prune"),
    ),
}

# Mutants found within seconds: `make test` runs them, the others are `longest`.
SOON = {
    "positions are moved from wherever they are",
    "the pending batch is not cleared",
    "positions keep the epoch of an earlier leader",
    "a failed check is published",
    "failed checks are retried for ever",
    "a contract that is taken again is not noted",
    "a batch names an application of another contract",
    "what was staged ahead is read from where positions were",
    "a sweep takes what is staged ahead",
}
