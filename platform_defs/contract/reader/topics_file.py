"""topics.yaml: the topics that no contract reads, in the contracts' folder next to the domains."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platform_defs.contract.document.node import Node, as_list, as_mapping, one_of
from platform_defs.contract.document.yaml_text import YamlText
from platform_defs.contract.keys.topic_keys import TOPICS_FILE
from platform_defs.contract.model.topic import TopicKeys
from platform_defs.contract.reader.topic import checked_topic, read_topic_keys

NAME = "topics.yaml"


@dataclass(frozen=True)
class ListedTopic:
    """A topic of topics.yaml."""

    name: str
    keys: TopicKeys
    line: int


def read_topics_file(folder: Path, content: str | None = None) -> tuple[ListedTopic, ...]:
    """Return the topics of `folder`/topics.yaml, in its order, or of `content` in its place; none if there is no file.

    Raises BadInput, with file, line and field, for the first mistake.
    """
    path = folder / NAME
    if content is None and not path.exists():
        return ()
    text = YamlText(path, content)
    root = Node(text.value, text)
    entries = root.child("topics")
    if text.value is None or text.value == {"topics": None}:
        return ()
    if (as_mapping(text.value) or {}).keys() - {"topics"} or as_list(entries.value) is None:
        raise root.refused(f"{NAME} must have one key, topics: a list of topics, each with its name")
    found = dict[str, ListedTopic]()
    for node in root.children("topics"):
        one = _topic(node)
        if one.name in found:
            raise node.child("name").refused(
                f"{one.name} is listed twice; the other entry is in line {found[one.name].line}"
            )
        found[one.name] = one
    return tuple(found.values())


def _topic(node: Node[object]) -> ListedTopic:
    written: Mapping[str, Node[object]] = {key: node.child(key) for key in node.written_keys()}
    if "name" not in written:
        raise node.refused("a topic must be a mapping with its name and settings: {name: ..., partitions: 3}")
    for key, below in written.items():
        if key not in TOPICS_FILE.known:
            raise below.refused(f"unknown key {key!r}; {one_of(TOPICS_FILE.names(), key)}")
    name = checked_topic(written["name"])
    return ListedTopic(name, read_topic_keys({k: v for k, v in written.items() if k != "name"}), node.line)
