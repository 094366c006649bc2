"""The topic that a name means, and the contract that describes its messages."""

from dataclasses import dataclass
from difflib import get_close_matches

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.topic import check_topic_name
from platform_defs.contract.reader.catalogue import BrokenContract, Contracts
from platform_defs.errors import BadInput, TopicMissing


@dataclass(frozen=True)
class Destination:
    """A topic. `contract`: None if no contract reads the topic; `broken`: contracts that might."""

    topic: str
    contract: Contract | None = None
    broken: tuple[BrokenContract, ...] = ()


def find_destination(name: str, contracts: Contracts) -> Destination:
    """Return the topic of the pipeline `name`, else the topic `name`, with the contract that reads it.

    Raises BadInput if several contracts read the topic, or if its contract cannot be used.
    """
    by_pipeline = [contract for contract in contracts.good if contract.pipeline == name]
    for broken in () if by_pipeline else contracts.broken:
        if broken.is_called(name) or (broken.contract is not None and broken.contract.topic == name):
            raise broken.error
    readers = by_pipeline or [contract for contract in contracts.good if contract.topic == name]
    if len(readers) > 1:
        pipelines = ", ".join(contract.pipeline for contract in readers)
        raise BadInput(f"several pipelines read topic {name}; give one of them instead: {pipelines}", field=name)
    if readers:
        return Destination(readers[0].topic, readers[0])
    check_topic_name(name)
    return Destination(name, broken=tuple(broken for broken in contracts.broken if broken.may_read(name)))


def missing(name: str, contracts: Contracts) -> TopicMissing:
    """Return the error for a topic that does not exist; `name` may be the misspelled name of a pipeline."""
    error = TopicMissing.named(name)
    names = [contract.pipeline for contract in contracts.good] + [contract.topic for contract in contracts.good]
    close = [] if name in names else get_close_matches(name, names, n=1)
    return TopicMissing(f"{error.problem}. Did you mean {close[0]}?", field=name) if close else error
