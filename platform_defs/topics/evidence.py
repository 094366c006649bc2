"""Evidence for the rules of topics, from ledger and broker: the cluster of the first apply, earlier reads, the lag."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

from platform_defs.cluster.ledger import TopicsLedger
from platform_defs.contract.model.digest import fingerprint_of
from platform_defs.errors import BadInput, LedgerAway
from platform_defs.kafka.broker import KafkaBroker, offsets_at
from platform_defs.ledger.answers import Reader, StatusAndPositions
from platform_defs.ledger.ledger import Ledger
from platform_defs.offsets import PartitionView, TopicView
from platform_defs.topics.declared import Declared
from platform_defs.topics.evidence_rules import Evidence, ReadBefore, Shorter, Unread, shorter
from platform_defs.topics.observed import Observed

NO_POSTGRES = "Postgres, which has the pipelines' positions, is not running (start it with tidegate stack up)"


@dataclass(frozen=True)
class Witness:
    """The queries to the ledger at `url` (None: there is none) and the broker."""

    options: Mapping[str, str] = field(repr=False)  # librdkafka's
    url: str | None = field(repr=False)

    def evidence(self, topics: Mapping[str, Declared], observed: Observed) -> Evidence:
        """Return the evidence about these topics. If the ledger does not answer, it is unknown, with the reason."""
        if self.url is None:
            return Evidence(unknown=NO_POSTGRES)
        try:
            ledger = TopicsLedger(self.url)
            first = ledger.cluster(observed.cluster_id)
            changes = {name: change for name, one in topics.items() if (change := shorter(one, observed))}
            readers = ledger.readers(changes)
            unread = {name: self._unread(topics[name], readers.get(name, ()), of) for name, of in changes.items()}
            missing = [one for name, one in topics.items() if name not in observed.topics and one.readers]
            read = self._read_before(missing, Ledger(self.url)) if missing else {}
        except (LedgerAway, BadInput) as error:  # also a ledger of another version, or a role without rights
            return Evidence(unknown=str(error))
        return Evidence(unread, first, read_before=read)

    def of_deletion(self, topic: str, observed: Observed) -> Evidence:
        """Return the ledger's cluster, and the messages of the topic that its pipelines have not read."""
        if self.url is None:
            return Evidence(unknown=NO_POSTGRES)
        try:
            ledger = TopicsLedger(self.url)
            unread = self._unread(Declared(topic), ledger.readers([topic]).get(topic, ()), [Shorter(None)])
            return Evidence({topic: unread}, ledger.cluster(observed.cluster_id))
        except (LedgerAway, BadInput) as error:
            return Evidence(unknown=str(error))

    def _read_before(self, missing: Sequence[Declared], ledger: Ledger) -> dict[str, list[ReadBefore]]:
        """Return the pipelines whose positions are in a topic of that name, by missing topic."""
        overview = ledger.overview([reader.pipeline for one in missing for reader in one.readers])
        at = {name: found.positions[0] for name, found in overview.items() if found.positions}
        found = {
            one.topic: [
                ReadBefore(reader.pipeline, at[reader.pipeline].topic_id, at[reader.pipeline].cluster_id)
                for reader in one.readers
                if reader.pipeline in at and at[reader.pipeline].topic == one.topic
            ]
            for one in missing
        }
        return {topic: readers for topic, readers in found.items() if readers}

    def _unread(self, declared: Declared, known: Sequence[Reader], changes: Sequence[Shorter]) -> list[Unread]:
        """Return the unread messages of declared readers, and of readers that only the ledger has (`known`).

        Positions are read before the broker, so that no position is beyond the end that it is compared with.
        """
        names = {reader.pipeline for reader in declared.readers}
        readers = [*declared.readers, *(reader for reader in known if reader.pipeline not in names)]
        each = [(one, change) for one in readers for change in changes if change.lost_to in (None, one.disposition)]
        found = Ledger(self.url or "").overview([one.pipeline for one, _ in each])
        view = KafkaBroker(self.options).describe(declared.topic) if each else None
        unread = [self._of(one, change, view, found[one.pipeline]) for one, change in each if view]
        return [one if one.pipeline in names else replace(one, retired=_retired(found[one.pipeline])) for one in unread]

    def _of(self, reader: Reader, change: Shorter, view: TopicView, found: StatusAndPositions) -> Unread:
        at = {one.partition: one.next_offset for one in found.positions if one.topic_id == view.topic_id}
        messages = sum(_between(at.get(number), held.written, held) for number, held in view.partitions.items())
        if change.milliseconds is None or not messages:
            return Unread(reader.pipeline, messages, messages, change)
        oldest_kept = int((time.time() + reader.seconds) * 1_000) - change.milliseconds  # at the reader's next run
        until = offsets_at(self.options, view.topic, max(0, oldest_kept))
        expiring = sum(_between(at.get(number), until[number], held) for number, held in view.partitions.items())
        return Unread(reader.pipeline, messages, expiring, change)


def _retired(found: StatusAndPositions) -> str:
    """Return a hash that changes as soon as the pipeline runs: each run has an epoch of its own."""
    positions = [astuple(position) for position in found.positions]
    return fingerprint_of([found.status.pipeline, found.status.epoch, positions])


def _between(position: int | None, until: int, held: PartitionView) -> int:
    return max(0, min(until, held.written) - max(position or 0, held.low))
