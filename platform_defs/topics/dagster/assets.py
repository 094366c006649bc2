"""Topics as assets. Dagster observes them, and materializes only those of producers/written_topics.py."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from platform_defs.contract.model.contract import Contract, Field
from platform_defs.contract.model.message_path import MessagePath, spell_path
from platform_defs.dagster.keys import PIPELINE_TAG, topic_key


@dataclass(frozen=True)
class Topic:
    """A topic, and the contracts of the pipelines that read it: at least one."""

    name: str
    contracts: tuple[Contract, ...]

    @property
    def prefix(self) -> tuple[str, ...]:
        """The prefix of its asset, which its contracts share."""
        return self.contracts[0].asset_prefix

    @property
    def key(self) -> dg.AssetKey:
        return topic_key(self.name, self.prefix)


def by_topic(contracts: Sequence[Contract]) -> list[Topic]:
    """Return the topics that these contracts read, each once."""
    names = dict.fromkeys(contract.topic for contract in contracts)
    return [Topic(name, tuple(item for item in contracts if item.topic == name)) for name in names]


def topic_spec(topic: Topic) -> dg.AssetSpec:
    """Return the topic, with the message that its contracts describe. Its group is the domain of the first contract."""
    readers = " and ".join(f"{item.pipeline} {item.version}" for item in topic.contracts)
    return dg.AssetSpec(
        topic.key,
        description=f"The topic {topic.name}, as read by {readers}.",
        group_name=topic.contracts[0].domain,
        kinds={"kafka"},
        tags={PIPELINE_TAG: topic.contracts[0].pipeline} if len(topic.contracts) == 1 else {},  # a tag has one value
        metadata={
            "dagster/column_schema": dg.TableSchema(columns=_columns(topic.contracts)),
            "format": ", ".join(dict.fromkeys(item.format for item in topic.contracts)),
            "pipelines": ", ".join(item.pipeline for item in topic.contracts),
        },
    )


def _columns(contracts: Sequence[Contract]) -> list[dg.TableColumn]:
    """Return the keys of the message, in the order of the contracts, each with every contract's description."""
    found: dict[MessagePath, list[Field]] = {}
    becomes: dict[MessagePath, list[str]] = {}
    for contract in contracts:
        columns = {column.name for column in contract.row_table.columns}
        for item in contract.message_fields:
            found.setdefault(item.path, []).append(item)
            column = f"Column {item.name} of {contract.row_table.name}."
            becomes.setdefault(item.path, []).append(column if item.name in columns else "Read by the transform.")
    return [
        _column(path, message, " ".join(dict.fromkeys(becomes[path])), everywhere=len(message) == len(contracts))
        for path, message in found.items()
    ]


def _column(path: MessagePath, fields: Sequence[Field], becomes: str, *, everywhere: bool) -> dg.TableColumn:
    """Return a column. `becomes`: the description if no contract has one."""
    rules = [rule.description for item in fields for rule in item.rules if rule.kind != "required"]
    descriptions = dict.fromkeys(item.description for item in fields if item.description)
    classifications = dict.fromkeys(item.classification for item in fields if item.classification)
    required = everywhere and all(item.required for item in fields)
    return dg.TableColumn(
        fields[0].source or spell_path(path),
        " or ".join(dict.fromkeys(item.type.name for item in fields)),
        description=" / ".join(descriptions) or becomes,
        constraints=dg.TableColumnConstraints(nullable=not required, other=list(dict.fromkeys(rules))),
        tags={"classification": ", ".join(classifications)} if classifications else {},
    )
