"""The topic that a name means, and the contract that reads its messages."""

from dataclasses import dataclass

from platform_defs.contract.model.classified import classified, classified_by
from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.topic import check_topic_name
from platform_defs.contract.reader.catalogue import Contracts
from platform_defs.errors import BadInput


@dataclass(frozen=True)
class ChosenTopic:
    """A topic, and the contract that decodes its messages; None: they are shown as bytes.

    `hides`: a contract of the topic classifies fields, so no key, header or undecoded value is shown. `classified`: the
    fields of `contract` that a contract of the topic classifies.
    """

    topic: str
    contract: Contract | None
    hides: bool
    classified: frozenset[str] = frozenset()


def choose_topic(name: str, found: Contracts, *, raw: bool) -> ChosenTopic:
    """Return the topic of the pipeline called `name`, else the topic of that name.

    Raises BadInput if several contracts read the topic, if its contract cannot be used, and for `raw` if a contract
    classifies fields or may do so.
    """
    pipeline = next((one for one in found.good if one.pipeline == name), None)
    if pipeline is None and (called := next((item for item in found.broken if item.is_called(name)), None)):
        raise called.error
    topic = pipeline.topic if pipeline else name
    check_topic_name(topic)
    readers = [one for one in found.good if one.topic == topic]
    broken = [item for item in found.broken if item.may_read(topic)]
    described = [*readers, *(item.contract for item in broken if item.contract)]
    classifying = [one.pipeline for one in described if classified(one).any]
    if raw and classifying:
        raise BadInput(
            f"messages of {topic} cannot be shown as bytes, because the contract of {classifying[0]} classifies "
            "fields. Leave out --raw to show them with masked values"
        )
    if broken and (raw or not readers):
        raise broken[0].error
    if not raw and pipeline is None and len(readers) > 1:
        names = ", ".join(one.pipeline for one in readers)
        raise BadInput(
            f"{topic} is read by several contracts: {names}. Give one of these pipelines instead of the topic"
        )
    contract = None if raw else pipeline or next(iter(readers), None)
    hidden = classified_by(described, contract) if contract else frozenset[str]()
    return ChosenTopic(topic, contract, bool(classifying or broken), hidden)
