"""Reports what a run commits: to Dagster, to lineage, to Kafka's tools, in this order (step 8 of engine/batch.py).

A report never stops a batch: a failed report is a warning in the run's log. Events that Dagster did not accept are
reported by the next run.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf

import dagster as dg
import psycopg
from psycopg import sql

from platform_defs import offsets
from platform_defs.contract.model.contract import CheckResult, Contract, Table
from platform_defs.contract.redaction import stored_checks
from platform_defs.dagster.run_session import runs_with_session
from platform_defs.dagster.runs import scheduled
from platform_defs.dagster.storage import STORAGE_AWAY
from platform_defs.errors import GateFailed, LedgerAway, PipelineHeld, TidegateError
from platform_defs.errors.words import plural
from platform_defs.groups.own_groups import progress_group, show_progress
from platform_defs.ledger.answers import PipelineStatus
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.published import Published, SchemaCount
from platform_defs.pipelines.reporting.collected import groups, together
from platform_defs.pipelines.reporting.events import Tally, evaluation, materializations, sentence
from platform_defs.pipelines.reporting.halts import not_halted
from platform_defs.pipelines.reporting.new_schemas import new_schemas
from platform_defs.postgres.connection import connect, database_errors
from platform_defs.postgres.tables import identifier
from platform_defs.settings.settings import settings
from platform_defs.stack.endpoints import Endpoints

MAX_UNREPORTED = 2_000  # batches of a pipeline: more than it commits while a run waits for a database
TOGETHER = 10.0  # seconds between two reports of a run that stays, each of all batches since the one before
PROGRESS_SECONDS = 30.0  # between two commits of the consumer group, which only Kafka's own tools read


class Reporter:
    """The reports of one run about one pipeline, over all of its turns.

    A batch counts as reported once Dagster has stored its events. The next run reports what a crash left unreported.
    `collects`: batches are reported together, when `report_collected` is called.
    """

    def __init__(
        self,
        context: dg.OpExecutionContext,
        contract: Contract,
        ledger: Ledger,
        endpoints: Endpoints,
        *,
        collects: bool = False,
    ) -> None:
        self.context, self.contract, self.ledger, self._collects = context, contract, ledger, collects
        self.endpoints, self.options = endpoints, endpoints.kafka_options()
        self.tallies: dict[tuple[str, str], Tally] = {}
        self.batches = self.dead_letters = 0
        self._named: set[SchemaCount] = set()  # with 0 messages: schemas that are not new any more
        self._begun = False
        self._not_halted_shown = False
        self._collected = deque[Published]()
        self._tallied = deque[int](maxlen=MAX_UNREPORTED)
        self._reported_at, self._reporting = -inf, threading.Lock()
        self._at: Mapping[int, int] = {}
        self._progress: tuple[float, Mapping[int, int]] = (time.monotonic(), {})

    def begin(self) -> None:
        """Begin a turn. The first turn reports the batches that an earlier run committed and did not report."""
        first, self._begun = not self._begun, True
        if first:
            with self._reporting:
                self._with_warning(self._report_earlier)

    @contextmanager
    def halt_reported(self) -> Generator[None]:
        """Report whether the pipeline is halted: after its first turn in this run, after each that fails, and after the
        first that goes well again.
        """
        try:
            yield
        except PipelineHeld:
            raise  # it is the other run's to report
        except BaseException:
            try:
                check = not_halted(self.contract, self.ledger.status(self.contract.pipeline))
                self._not_halted_shown = self._log(check) and check.passed
            except TidegateError as error:
                self.context.log.warning(f"could not find out whether {self.contract.pipeline} is halted: {error}")
            raise
        if not self._not_halted_shown:  # a turn went well: the pipeline is not halted
            self._not_halted_shown = self._log(not_halted(self.contract, PipelineStatus(self.contract.pipeline)))

    def published(self, batch: Published) -> None:
        """Report a batch of this run, or collect it."""
        if self._collects:
            self._collected.append(batch)
        else:
            self._report_group([batch])

    def report_collected(self, *, every: float = 0.0, at_once: bool = False) -> None:
        """Report the collected batches, lineage and the consumer group, unless the last report is less than TOGETHER or
        `every` seconds ago.
        """
        with self._reporting:
            soon = time.monotonic() - self._reported_at < max(TOGETHER, every)
            if not self._collected or (soon and not at_once):
                return
            collected = [self._collected.popleft() for _ in range(len(self._collected))]  # turns append to it meanwhile
            self._reported_at = time.monotonic()
            unreported = [batch for group in groups(collected) for batch in self._report_group(group)]
            self._collected.extendleft(reversed(unreported[-MAX_UNREPORTED:]))  # the next run reports the others
        self._tell_others()

    def gate_failed(self, failed: GateFailed, batch_id: int) -> None:
        """Report every check of a batch that was not published, the failed ones with their samples."""
        with self._reporting:
            for result in failed.results:
                self._tally(result, batch_id, published=False)
            for result in failed.results:
                self._log_check(result)

    def turn_ended(self, at: Mapping[int, int]) -> None:
        """Send lineage, and every PROGRESS_SECONDS commit the consumer group. `at`: the next offsets, by partition."""
        self._at = at
        if not self._collects:
            self._tell_others()

    def _tell_others(self) -> None:
        self._with_warning(self._send_lineage)
        if time.monotonic() - self._progress[0] > PROGRESS_SECONDS:
            self._with_warning(self._show_progress)

    def finish(self) -> None:
        """Report the totals of a run of several batches, and the pipeline's offsets to Kafka's tools."""
        self.report_collected(at_once=True)
        if self.batches > 1:
            for tally in self.tallies.values():
                if tally.failed_batches or not scheduled(self.context.run):  # the sensor's run comes again soon
                    self._log(evaluation(self.contract, tally))
        self._with_warning(self._show_progress)
        self._with_warning(self._send_lineage)
        if self.dead_letters:
            name, count = self.contract.pipeline, plural(self.dead_letters, "dead letter")
            self.context.log.info(f"{name}: {count} in this run. To see why: tidegate dlq list {name}")

    def _report_earlier(self) -> None:
        """Report the batches of earlier runs, except those that a live run has collected: it reports them itself."""
        found = self.ledger.unreported(self.contract)
        alive = runs_with_session(self.ledger, {batch.run_id for batch in found if batch.run_id})
        earlier = [batch for batch in found if batch.run_id not in alive]
        if earlier:
            self.ledger.put_off_reports([batch.batch_id for batch in earlier])
        earlier = [replace(batch, checks=stored_checks(self.contract, batch.checks)) for batch in earlier]
        for batch in earlier:
            run = batch.run_id
            by = f"by run {run[:8]}, which did not report it" if run else "by tidegate replay, or outside Dagster"
            self.context.log.info(f"{self.contract.pipeline}: batch {batch.batch_id} was committed {by}")
        for group in groups(earlier) if self._collects else [[batch] for batch in earlier]:
            self._report(group)

    def _report_group(self, batches: Sequence[Published]) -> Sequence[Published]:
        """Report these batches. Return those to report again, because a database did not answer."""
        again = self._with_warning(partial(self._report, batches))
        self.context.log.info(f"{self.contract.pipeline}: {sentence(batches)}")
        return batches if again else ()

    def _report(self, batches: Sequence[Published]) -> None:
        """Report these as one materialization of each table. Raises LedgerAway if Dagster did not store all of it."""
        batch = together(batches)
        positions = self.ledger.positions(self.contract.pipeline)
        lag = None if batch.view is None else offsets.lag(positions, batch.view)
        counts = {t.name: row_count(self.ledger, self.contract, t, batch.batch_id) for t in self.contract.tables}
        count = len(batches) if self._collects else None
        logged = [self._log(event) for event in materializations(self.contract, batch, lag, counts, count)]
        for each in batches:
            if each.batch_id in self._tallied:  # it is reported again
                continue
            for result in each.checks:
                self._tally(result, each.batch_id)
            self.dead_letters += each.dead_letters
            self._tallied.append(each.batch_id)
        to_show = {  # passed again: reported at the end
            (result.table, result.name): result for result in batch.checks if self.batches == 0 or not result.passed
        }
        logged += [self._log_check(result) for result in to_show.values()]
        logged += [self._log(event) for each in batches for event in self._new_schemas(each)]
        if not all(logged):
            raise LedgerAway("Dagster's storage did not answer")
        self.batches += len(batches)
        for each in batches:
            self.ledger.mark_reported(each.batch_id)

    def _new_schemas(self, batch: Published) -> list[dg.AssetObservation]:
        """Return the schemas that no message named before. The ledger is queried once for each that this run meets."""
        named = {replace(item, messages=0) for item in batch.schemas}
        if named <= self._named:
            return []
        found = new_schemas(self.contract, batch, self.ledger, self.endpoints)
        self._named |= named
        return found

    def _tally(self, result: CheckResult, batch_id: int, *, published: bool = True) -> None:
        tally = self.tallies.setdefault((result.table, result.name), Tally(result))
        tally.add(result, batch_id, published=published)

    def _log_check(self, result: CheckResult) -> bool:
        return self._log(evaluation(self.contract, self.tallies[result.table, result.name]))

    def _log(self, event: dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation) -> bool:
        """Log an event to Dagster. Return False if its storage did not answer: the next run is to try again."""
        try:
            self.context.log_event(event)  # pyright: ignore[reportArgumentType]  # accepted, though not annotated
        except Exception as error:  # noqa: BLE001  # a rule renamed, an asset gone: the batch is committed all the same
            name = self.contract.pipeline
            self.context.log.warning(f"{name}: everything is committed, but Dagster did not accept {event}: {error}")
            return not isinstance(error, STORAGE_AWAY)
        return True

    def _send_lineage(self) -> None:
        from platform_defs.lineage.events import emit_waiting  # a slow import, of no use to load definitions

        emitted = emit_waiting(self.ledger.url, self.contract.pipeline, settings().home)
        if emitted.problem:
            self.context.log.warning(f"everything is committed; {emitted.problem}")

    def _show_progress(self) -> None:
        if self.batches and self._at and self._at != self._progress[1]:
            self._progress = (time.monotonic(), self._at)
            show_progress(self.options, progress_group(self.contract.pipeline), self.contract.topic, self._at)

    def _with_warning(self, report: Callable[[], None]) -> bool:
        """Report. Return True if that is to be tried again later, because a database did not answer."""
        try:
            report()
        except Exception as error:  # noqa: BLE001  # whatever a listener does: the batch is committed all the same
            self.context.log.warning(f"everything is committed, but not every listener could be notified: {error}")
            return isinstance(error, (LedgerAway, *STORAGE_AWAY))
        return False


ROW_COUNT_TIMEOUT = "200ms"  # for counting; a batch must not wait for a large table


def row_count(ledger: Ledger, contract: Contract, table: Table, batch_id: int) -> int | None:
    """Return the rows of `table` after the batch: an append's from the ledger, else counted; None if that is slow."""
    if table.disposition == "append":
        return ledger.rows_so_far(contract.pipeline, batch_id)
    with connect(ledger.url) as connection, database_errors("table"):
        connection.execute(sql.SQL("SET statement_timeout = {}").format(sql.Literal(ROW_COUNT_TIMEOUT)))
        try:
            row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(identifier(table.name))).fetchone()
        except psycopg.errors.QueryCanceled:
            return None
    return row[0] if row else None
