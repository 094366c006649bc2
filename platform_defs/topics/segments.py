"""The segment files of the embedded brokers, in their log folders on this machine."""

from pathlib import Path

from platform_defs.kafka.topic_description import Segment
from platform_defs.stack.state import kafka_folder


def segments_of(home: Path, broker: int, topic: str, partition: int) -> tuple[Segment, ...]:
    """Return the segments of a replica, oldest first; none if the broker does not have it. A broker that is down still
    has its files.
    """
    found = list[Segment]()
    for path in sorted((kafka_folder(home, broker) / "data" / f"{topic}-{partition}").glob("*.log")):
        try:
            found.append(Segment(name=path.name, size=path.stat().st_size))
        except FileNotFoundError:  # deleted meanwhile
            continue
    return tuple(found)
