"""What would become of the latest messages: decoded and checked by two contracts, without writing anything."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from platform_defs.contract.model import Contract
from platform_defs.engine.row_checks import check_rows
from platform_defs.engine.topic_view import describe
from platform_defs.formats.supported import decode
from platform_defs.offsets import OffsetRange
from resources.endpoints import Endpoints
from resources.kafka.broker import KafkaBroker
from resources.kafka.source import KafkaSource


@dataclass
class Judged:
    """What messages become by one contract. `rows`: of the message, before a transform."""

    rows: int = 0
    dead_letters: Counter[str] = field(default_factory=Counter[str])  # by error class

    def add(self, contract: Contract, values: pa.BinaryArray) -> None:
        found = check_rows(contract, decode(contract, values))
        self.rows += found.rows.num_rows
        self.dead_letters.update(fault.error_class for fault in found.faults)


@dataclass(frozen=True)
class Preview:
    """The same messages by the contract before and by the one after."""

    messages: int
    before: Judged
    after: Judged

    def to_json(self) -> Mapping[str, Any]:
        return {"messages": self.messages, "before": asdict(self.before), "after": asdict(self.after)}


def judge_both(old: Contract, new: Contract, endpoints: Endpoints, most: int, say: Callable[[str], None]) -> Preview:
    """The latest `most` messages of each partition of the topic of `new`, by both contracts.

    An upsert's tombstones are not among them. Raises BrokerAway, TopicMissing.
    """
    options = endpoints.kafka_options()
    view = describe(KafkaBroker(options), new.topic, [])
    source, messages, before, after = KafkaSource(options), 0, Judged(), Judged()
    for number, held in sorted(view.partitions.items()):
        start = max(held.low, held.end - most)
        for block in source.read(OffsetRange(new.topic, number, start, held.end)) if start < held.end else ():
            values = block.values.drop_null() if new.row_table.disposition == "upsert" else block.values
            before.add(old, values)
            after.add(new, values)
            messages += len(values)
        say(f"partition {number}: offsets [{start}, {held.end}) judged")
    return Preview(messages, before, after)
