"""Reports what a run commits: to Dagster, to lineage, to Kafka's tools, in this order (step 8 of engine/batch.py)."""

import time

import dagster as dg

from platform_defs import offsets
from platform_defs.contract.model import CheckResult, Contract
from platform_defs.engine.batch import Outside
from platform_defs.engine.ports import Published
from platform_defs.errors import BadInput, BrokerAway, GateFailed, LedgerAway
from platform_defs.offsets import TopicView
from platform_defs.orchestration.events import Tally, evaluation, materializations
from resources.endpoints import Endpoints
from resources.kafka.broker import show_progress
from resources.lineage import emit_waiting
from resources.postgres.ledger import Ledger
from resources.postgres.row_counts import row_count
from resources.settings import settings

VIEW_SECONDS = 1.0  # how old the broker's end offsets may be in a lag that is reported


class Reporter:
    """The reports of one run.

    A batch counts as reported once Dagster has stored its events. What a crash left unreported, the next run reports.
    """

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        contract: Contract,
        ledger: Ledger,
        outside: Outside,
        endpoints: Endpoints,
    ) -> None:
        self.context, self.contract, self.ledger, self.outside = context, contract, ledger, outside
        self.options = endpoints.kafka_options()
        self.tallies: dict[tuple[str, str], Tally] = {}
        self.batches = 0
        self._view: tuple[float, TopicView] | None = None

    def report_earlier(self) -> None:
        """Report the batches that an earlier run committed and then died before reporting."""
        for batch in self.ledger.unreported(self.contract):
            self.context.log.info(
                f"batch {batch.batch_id}: committed by an earlier run, which ended before reporting it"
            )
            self._report(batch, lag=None)

    def published(self, batch: Published) -> None:
        """Report a batch of this run."""
        self._report(batch, lag=self._lag())
        seconds = sum(batch.timings.values())
        self.context.log.info(
            f"batch {batch.batch_id}: {batch.messages:,} messages, {batch.rows:,} rows, "
            f"{batch.dead_letters:,} dead letters in {seconds:.2f} s"
        )

    def gate_failed(self, failed: GateFailed) -> None:
        """Report every check of a batch that was not published, the failed ones with their samples."""
        pending = self.outside.ledger.pending()
        for result in failed.results:
            self._tally(result, pending.batch_id if pending else 0)
        for result in failed.results:
            self._log_check(result, published=False)

    def finish(self) -> None:
        """Report the totals of a run of several batches, emit lineage, commit the consumer group.

        A failure here is only a warning.
        """
        if self.batches > 1:
            for tally in self.tallies.values():
                self._log(evaluation(tally))
        try:
            while emit_waiting(self.ledger, settings().home):
                continue
            self._show_progress()
        except (OSError, LedgerAway, BrokerAway) as error:  # requests' errors are OSErrors
            self.context.log.warning(f"everything is committed, but not every listener could be notified: {error}")

    def _report(self, batch: Published, lag: int | None) -> None:
        counts = {t.name: row_count(self.ledger, self.contract, t, batch.batch_id) for t in self.contract.tables}
        for event in materializations(self.contract, batch, lag, counts):
            self.context.log_event(event)
        for result in batch.checks:
            self._tally(result, batch.batch_id)
        for result in batch.checks:
            if self.batches == 0 or not result.passed:  # passed again: reported at the end
                self._log_check(result)
        self.batches += 1
        self.ledger.mark_reported(batch.batch_id)

    def _tally(self, result: CheckResult, batch_id: int) -> None:
        self.tallies.setdefault((result.table, result.name), Tally(result)).add(result, batch_id)

    def _log_check(self, result: CheckResult, *, published: bool = True) -> None:
        self._log(evaluation(self.tallies[result.table, result.name], published=published))

    def _log(self, found: dg.AssetCheckEvaluation) -> None:
        self.context.log_event(found)  # pyright: ignore[reportArgumentType]  # taken, though the annotation omits it

    def _lag(self) -> int | None:
        try:
            view = self._recent_view()
        except (BrokerAway, BadInput) as error:
            self.context.log.warning(f"the lag is unknown: {error}")
            return None
        return sum(offsets.lag(self.outside.ledger.positions(), view).values())

    def _recent_view(self) -> TopicView:
        now = time.monotonic()
        if self._view is None or now - self._view[0] > VIEW_SECONDS:
            self._view = (now, self.outside.broker.describe(self.contract.topic))
        return self._view[1]

    def _show_progress(self) -> None:
        positions = {item.partition: item.next_offset for item in self.outside.ledger.positions()}
        if self.batches and positions:
            show_progress(self.options, f"tidegate-{self.contract.pipeline}", self.contract.topic, positions)
