"""Which topic a name stands for, and which contract describes its messages."""

from dataclasses import dataclass
from difflib import get_close_matches

from platform_defs.contract.catalogue import Contracts
from platform_defs.contract.model import Contract, stem
from platform_defs.errors import BadInput, TopicMissing


@dataclass(frozen=True)
class Destination:
    """A topic. `contract`: None if no contract reads the topic; `unreadable`: files of contracts that might."""

    topic: str
    contract: Contract | None = None
    unreadable: tuple[str, ...] = ()


def find_destination(name: str, contracts: Contracts) -> Destination:
    """Return the topic of the pipeline `name`, else the topic `name`, with the contract that reads it.

    Raises BadInput where several contracts read the topic, or the one that does cannot be used.
    """
    for broken in contracts.broken:
        topic = broken.contract.topic if broken.contract else None
        if name in (broken.name, f"{broken.domain}_{stem(broken.path)}", topic):
            raise broken.error
    by_pipeline = [contract for contract in contracts.good if contract.pipeline == name]
    readers = by_pipeline or [contract for contract in contracts.good if contract.topic == name]
    if len(readers) > 1:
        pipelines = ", ".join(contract.pipeline for contract in readers)
        raise BadInput(f"several pipelines read topic {name}; give one of them instead: {pipelines}", field=name)
    if readers:
        return Destination(readers[0].topic, readers[0])
    return Destination(name, unreadable=tuple(str(broken.path) for broken in contracts.broken))


def missing(name: str, contracts: Contracts) -> TopicMissing:
    """Return the error for a topic that does not exist; `name` may be the misspelled name of a pipeline."""
    error = TopicMissing.named(name)
    names = [contract.pipeline for contract in contracts.good] + [contract.topic for contract in contracts.good]
    close = get_close_matches(name, names, n=1)
    return TopicMissing(f"{error.problem}. Did you mean {close[0]}?", field=name) if close else error
