"""Polls all pipelines at once: the ledger in a few statements, the brokers in four requests, over kept clients."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from platform_defs.dagster.run_session import runs_with_session
from platform_defs.errors import LedgerOutdated
from platform_defs.pipelines.scheduler.waiting import Seen
from platform_defs.stack.endpoints import Endpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from platform_defs.contract.model.contract import Contract

T = TypeVar("T")


class Survey:
    """The clients that the sensor keeps from tick to tick, and a run from poll to poll."""

    def __init__(self, endpoints: Endpoints) -> None:
        # With the first tick or run: Dagster's definitions do not wait for the clients' imports.
        from platform_defs.kafka.topic_views import KafkaTopics
        from platform_defs.ledger.ledger import Ledger
        from platform_defs.postgres.connection_cache import ConnectionCache

        self._kept = ConnectionCache(endpoints.postgres_url)
        self.ledger, self.topics = Ledger(endpoints.postgres_url, self._kept), KafkaTopics(endpoints.kafka_options())

    def look(self, contracts: Sequence[Contract]) -> list[Seen]:
        """Return the state of each of `contracts`. The ledger is queried first: no position is beyond the end that is
        seen with it.

        Raises LedgerAway, LedgerTooNew, and BrokerAway if no broker answers; an error of one topic is in its `view`.
        Migrates an older ledger: a run would, but none starts before the ledger can be read.
        """
        known = self._migrated(lambda: self.ledger.overview([contract.pipeline for contract in contracts]))
        unreported = self.left_unreported(contracts)
        views = self.topics.views(contract.topic for contract in contracts)
        return [
            Seen(
                contract,
                known[contract.pipeline].status,
                known[contract.pipeline].positions,
                views[contract.topic],
                contract.pipeline in unreported,
            )
            for contract in contracts
        ]

    def ledger_id(self) -> str | None:
        """Return the UUID of the ledger; None if there is none yet. Migrates an older ledger, as `look` does."""
        return self._migrated(self.ledger.ledger_id)

    def live_runs(self, run_ids: Iterable[str]) -> set[str]:
        """Return those of these Dagster runs whose process is alive, on any machine."""
        return runs_with_session(self.ledger, run_ids)

    def left_unreported(self, contracts: Iterable[Contract]) -> set[str]:
        """Return the pipelines with batches that a run committed and will not report, because it is not alive; without
        pipelines whose failed report waits for its next try.
        """
        unreported = self.ledger.unreported_runs([contract.pipeline for contract in contracts])
        alive = self.live_runs({run_id for _, run_id in unreported if run_id})
        return {pipeline for pipeline, run_id in unreported if run_id not in alive}

    def close(self) -> None:
        self._kept.close()

    def _migrated(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except LedgerOutdated:
            self.ledger.migrate()
            return read()


@lru_cache(maxsize=2)  # a password that changes makes another
def _kept(postgres_url: str, bootstrap_servers: str, options: frozenset[tuple[str, str]]) -> Survey:
    return Survey(Endpoints(postgres_url, bootstrap_servers, dict(options)))


def kept_survey(endpoints: Endpoints) -> Survey:
    """Return the survey of this process for these endpoints."""
    return _kept(endpoints.postgres_url, endpoints.bootstrap_servers, frozenset(endpoints.librdkafka.items()))
