"""A pipeline's turn in a run: take it over, run a few batches, report them, and give it back."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import dagster as dg
from pyspark.sql import SparkSession

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline
from platform_defs.engine.batch import Budget, RunContext, drain
from platform_defs.engine.plan.budget import Spent
from platform_defs.engine.plan.planning import is_full
from platform_defs.errors import Fenced, GateFailed, PipelineHeld, RunStopped, TidegateError, TransformChanged
from platform_defs.errors.error_policy import TRIES
from platform_defs.ledger.ledger import Ledger
from platform_defs.ledger.published import Published
from platform_defs.pipelines.reporting.reporter import Reporter
from platform_defs.pipelines.scheduler.continuous import SHARE as STAYING
from platform_defs.pipelines.scheduler.continuous import in_small_batches
from platform_defs.pipelines.scheduler.run_policy import Turned
from platform_defs.runs.open_run import open_run
from platform_defs.spark.resource import SparkResource
from platform_defs.spark.warm_up import warm_up
from platform_defs.stack.endpoints import Endpoints

SHARE = Budget(batches=4, seconds=10.0)  # of one turn; a batch that has begun is finished
LONG = Budget(batches=20, seconds=30.0)  # the same if no other waits: the first batch of a turn is not prefetched
# Failures in a row after which a batch is tried alone: a batch that makes Spark end fails those beside it as well, and
# all are tried again at the same time. Alone, it halts by itself, and the others go on.
ALONE = TRIES // 2
ALONE_FOR = 60.0  # seconds that the others wait for it at most, and it for them: a turn may hang
# Failures after which it is alone for longer: two more halt it, and one may be a death that is counted only when the
# next run takes the pipeline over. So no batch halts for what another did beside it within that time.
LAST = TRIES - 2
LAST_FOR = 300.0
EACH = 1.0  # seconds per report of a run that stays: else its log would grow without end with many pipelines
AGAIN = 0.5  # seconds after which a pipeline that another run has leased may be tried again


class Turns:
    """The pipelines of a run. Turns of several are taken at once, each in a thread."""

    def __init__(
        self,
        context: dg.OpExecutionContext,
        pipelines: Sequence[Pipeline],
        endpoints: Endpoints,
        ledger: Ledger,
        spark: SparkResource,
        *,
        stays: bool = False,
    ) -> None:
        """`stays`: for a continuous run, whose turns are short, and whose batches are reported together. Set
        `others_waiting` to a function that returns True if others wait for a turn.
        """
        self._context, self._endpoints, self._ledger, self._spark = context, endpoints, ledger, spark
        self._stays = stays
        self.others_waiting: Callable[[], bool] = lambda: True
        self._pipelines: Mapping[str, Pipeline] = {item.name: item for item in pipelines}
        self._reporters: dict[str, Reporter] = {}
        self._alone_since: dict[str, float] = {}
        self._outdated = False  # a file that a transform imports has changed
        self._starting, self._stopped, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._reports = threading.Thread(target=self._report_now_and_then, name="reports", daemon=True)
        if stays:
            self._reports.start()

    def take(self, name: str) -> Turned:
        """Run a turn. Raises any error that ends the run's work on the pipeline, and PipelineHeld if another run has
        it.
        """
        pipeline, run_id = self._pipelines[name], self._context.run.run_id
        if name not in self._reporters:  # one in the run, which sums up the results of all turns
            self._reporters[name] = Reporter(
                self._context, pipeline.contract, self._ledger, self._endpoints, collects=self._stays
            )
        reporter = self._reporters[name]
        self._alone_since.pop(name, None)  # it has waited: now the others do
        try:
            with (
                reporter.halt_reported(),
                open_run(
                    pipeline, self._endpoints, self._session, run_id, ledger=self._ledger, unless_held=True
                ) as run_context,
            ):
                reporter.begin()
                limit = replace(run_context.limit, stopped=self._stopped.is_set)
                return self._drained(pipeline, replace(run_context, limit=limit), reporter)
        except PipelineHeld:
            time.sleep(AGAIN)
            raise
        except Exception as error:
            self._outdated = self._outdated or isinstance(error, TransformChanged)
            self._explain(name, error)
            raise
        finally:
            self._alone_since.pop(name, None)

    def finish(self) -> None:
        """Report what is left to report at the end of the run. None of it can fail the run."""
        self._over.set()
        if self._stays:
            self._reports.join()
        for reporter in self._reporters.values():
            reporter.finish()

    def alone(self, name: str) -> bool:
        """Return True if the pipeline's batch has failed so often that it is tried alone, for a while."""
        try:
            failures = self._ledger.batch_failures(name)
        except TidegateError:
            return False  # its turn will report what is wrong
        if failures < ALONE:
            return False
        now = time.monotonic()
        return now - self._alone_since.setdefault(name, now) < (ALONE_FOR if failures < LAST else LAST_FOR)

    def over(self) -> bool:
        """Return True if no turn can be taken any more: pipelines that have had no turn must not fail because of
        another. True also once a file that a transform imports has changed: the next run imports it, and should begin
        soon.
        """
        return self._outdated or self._spark.has_ended()

    def stop(self) -> None:
        """Make the turns that are being taken end: their Spark jobs are cancelled, and no failure is counted."""
        self._stopped.set()
        self._spark.cancel_jobs()

    @property
    def taken(self) -> list[str]:
        """The pipelines that have had a turn."""
        return list(self._reporters)

    def warm_up(self) -> None:
        """Start Spark and a Python worker for each core, before any message waits for them."""
        try:
            warm_up(self._session())
        except Exception as error:  # noqa: BLE001  # of whatever kind: the first turn meets it again, and records it
            self._context.log.warning(f"Spark did not start: {error}")

    def _report_now_and_then(self) -> None:
        while not self._over.wait(1.0):
            reporters = list(self._reporters.values())
            for reporter in reporters:
                reporter.report_collected(every=len(reporters) * EACH)

    def _drained(self, pipeline: Pipeline, run_context: RunContext, reporter: Reporter) -> Turned:
        share, read = Spent(SHARE), in_small_batches(pipeline) if self._stays else pipeline
        try:
            with closing(drain(read, run_context, self._share())) as drained:
                for published in drained:
                    reporter.published(published)
                    share.begun += 1
                    if self._stopped.is_set() or not self._goes_on(published, pipeline.contract, share):
                        break
        except GateFailed as failed:
            pending = run_context.ledger.pending()
            reporter.gate_failed(failed, pending.batch_id if pending else 0)
            raise
        at = {item.partition: item.next_offset for item in run_context.ledger.positions()}
        reporter.turn_ended(at)
        if not share.begun and not self._stays:
            self._context.log.info(f"{pipeline.name}: nothing to read in {pipeline.contract.topic}")
        return Turned(share.begun, at)

    def _share(self) -> Budget:
        """Return the budget of a turn. If others wait, a turn of a run that stays prefetches nothing: it ends with its
        batch.
        """
        others_waiting = self.others_waiting()
        if self._stays:
            return replace(STAYING, ahead=not others_waiting)
        return SHARE if others_waiting else LONG

    def _goes_on(self, published: Published, contract: Contract, share: Spent) -> bool:
        """Return True if the turn goes on after the batch. A long turn ends if others have come to wait meanwhile and
        its `share` is spent.
        """
        if published.followed:  # of a plan that is published range by range: all of it is reported
            return True
        if self._stays:
            return not self.others_waiting()
        return _may_leave_more(published, contract) and (share.may_begin() or not self.others_waiting())

    def _session(self) -> SparkSession:
        with self._starting:  # two first batches at once start one session
            return self._spark.session()

    def _explain(self, name: str, error: Exception) -> None:
        """Log at once the error that the run will fail with at its end."""
        if isinstance(error, Fenced):
            self._context.log.warning(f"{name}: stopped cleanly because another run has taken over. {error}")
        elif isinstance(error, RunStopped):
            self._context.log.warning(str(error))
        else:
            self._context.log.error(f"{name}: {error}", exc_info=not isinstance(error, TidegateError))


def _may_leave_more(batch: Published, contract: Contract) -> bool:
    """Return True if the batch was as large as the contract allows. A smaller one has read all there was when it was
    planned; polling at once for what came since would make a batch of each message of a slow topic. For ranges that are
    published one by one, the plan counts.
    """
    if batch.followed:
        return True
    return is_full(batch.plan or batch.ranges, contract.limits.batch_messages)
