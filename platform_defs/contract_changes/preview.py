"""A preview: the latest messages, decoded and checked by two contracts, without writing a row.

Schemas that the registry had to be queried for are stored in the ledger, as by a run.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from platform_defs.contract.model.contract import Contract
from platform_defs.engine.plan.topic_view import describe
from platform_defs.engine.task.decoding import BlockDecoder
from platform_defs.formats.blocks.arrow import places
from platform_defs.formats.blocks.block import Block, in_parts
from platform_defs.formats.blocks.decoded import Decoded
from platform_defs.kafka.broker import KafkaBroker
from platform_defs.kafka.source import KafkaSource
from platform_defs.offsets import OffsetRange
from platform_defs.stack.endpoints import Endpoints


@dataclass
class Results:
    """The results of messages by one contract. `rows`: before a transform."""

    contract: Contract
    decoder: BlockDecoder
    rows: int = 0
    dead_letters: Counter[str] = field(default_factory=Counter[str])  # by error class

    def add(self, partition: int, block: Block) -> None:
        """Count the messages of a block."""

        def decoded(part: Block) -> Decoded:
            return self.decoder.rows(partition, part, decoded_messages(self.contract, part)).decoded

        for _, found in in_parts(block, decoded):
            self.rows += found.rows.num_rows
            self.dead_letters.update(fault.error_class for fault in found.faults)

    def to_json(self) -> Mapping[str, Any]:
        return {"rows": self.rows, "dead_letters": self.dead_letters}


@dataclass(frozen=True)
class Preview:
    """Identical messages by the old and the new contract."""

    messages: int
    before: Results
    after: Results

    def to_json(self) -> Mapping[str, Any]:
        return {"messages": self.messages, "before": self.before.to_json(), "after": self.after.to_json()}


def decoded_messages(contract: Contract, block: Block) -> pa.Int64Array | None:
    """Return the messages of a block that are decoded: all (None), or for an upsert those with a value."""
    return places(block.values.is_valid()) if contract.row_table.disposition == "upsert" else None


def decode_both(old: Contract, new: Contract, endpoints: Endpoints, most: int, say: Callable[[str], None]) -> Preview:
    """Decode the latest `most` messages of each partition of the topic of `new` by both contracts.

    An upsert's tombstones are excluded. Raises BrokerAway, TopicMissing, and RegistryAway if messages name schemas that
    the ledger does not have.
    """
    options = endpoints.kafka_options()
    view = describe(KafkaBroker(options), new.topic, [])
    source, messages = KafkaSource(options), 0
    before, after = (_results(contract, endpoints, view.topic_id) for contract in (old, new))
    for number, held in sorted(view.partitions.items()):
        start = max(held.low, held.end - most)
        for block in source.read(OffsetRange(new.topic, number, start, held.end)) if start < held.end else ():
            before.add(number, block)
            after.add(number, block)
            chosen = decoded_messages(new, block)
            messages += len(block.values) if chosen is None else len(chosen)
        say(f"partition {number}: offsets [{start}, {held.end}) checked")
    return Preview(messages, before, after)


def _results(contract: Contract, endpoints: Endpoints, topic_id: str) -> Results:
    if not contract.wire.framed:
        return Results(contract, BlockDecoder(contract, None))
    from platform_defs.registry.schemas import schemas_of  # the client takes its time to load, and bare JSON needs none

    schemas = schemas_of(contract, contract.pipeline, endpoints.postgres_url, endpoints.registry, topic_id)
    return Results(contract, BlockDecoder(contract, schemas))
