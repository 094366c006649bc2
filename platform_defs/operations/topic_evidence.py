"""What the rules of topics ask of ledger and broker: the cluster of the first apply, and what is unread."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from platform_defs.errors import LedgerAway, LedgerOutdated, LedgerTooNew
from platform_defs.offsets import PartitionView, Position, TopicView
from platform_defs.topics.declared import Declared, Reader
from platform_defs.topics.evidence_rules import Evidence, Shorter, Unread, shorter
from platform_defs.topics.observed import Observed
from resources.kafka.broker import KafkaBroker, offsets_at
from resources.postgres.ledger import Ledger
from resources.postgres.topics_ledger import TopicsLedger

NO_POSTGRES = "Postgres, which holds the pipelines' positions, is not running (tidegate stack up)"


@dataclass(frozen=True)
class Witness:
    """Asks the ledger at `url` (None: there is none to ask) and the broker."""

    options: Mapping[str, str] = field(repr=False)  # librdkafka's
    url: str | None = field(repr=False)

    def evidence(self, topics: Mapping[str, Declared], observed: Observed) -> Evidence:
        """What the rules need of these topics. A ledger that does not answer makes it unknown, with the reason."""
        if self.url is None:
            return Evidence(unknown=NO_POSTGRES)
        try:
            first = TopicsLedger(self.url).first_cluster()
            changes = {name: change for name, one in topics.items() if (change := shorter(one, observed))}
            unread = {name: self._unread(topics[name], change, Ledger(self.url)) for name, change in changes.items()}
        except (LedgerAway, LedgerOutdated, LedgerTooNew) as error:
            return Evidence(unknown=str(error))
        return Evidence(unread, first)

    def unread(self, topic: str, readers: Sequence[Reader]) -> Sequence[Unread]:
        """What each of `readers` has not read of the topic. Raises TidegateError."""
        return self._unread(Declared(topic, readers=tuple(readers)), Shorter(None), Ledger(self.url or ""))

    def _unread(self, declared: Declared, change: Shorter, ledger: Ledger) -> list[Unread]:
        """Positions first, then the broker: no position is beyond the end that it is compared with."""
        names = [reader.pipeline for reader in declared.readers]
        positions = {name: found.positions for name, found in ledger.overview(names).items()}
        view = KafkaBroker(self.options).describe(declared.topic) if names else None
        return [self._of(reader, change, view, positions[reader.pipeline]) for reader in declared.readers if view]

    def _of(self, reader: Reader, change: Shorter, view: TopicView, positions: Sequence[Position]) -> Unread:
        at = {one.partition: one.next_offset for one in positions if one.topic_id == view.topic_id}
        messages = sum(held.unread(at.get(number)) for number, held in view.partitions.items())
        if change.milliseconds is None or not messages:
            return Unread(reader.pipeline, messages, messages)
        until = offsets_at(self.options, view.topic, _oldest_kept(change.milliseconds, reader))
        expiring = sum(_between(at.get(number), until[number], held) for number, held in view.partitions.items())
        return Unread(reader.pipeline, messages, expiring)


def _oldest_kept(retention: int, reader: Reader) -> int:
    """The timestamp, in ms, below which a message is gone before the reader's next run may start for it."""
    return max(0, int((time.time() + reader.seconds) * 1_000) - retention)


def _between(position: int | None, until: int, held: PartitionView) -> int:
    return max(0, min(until, held.end) - max(position or 0, held.low))
