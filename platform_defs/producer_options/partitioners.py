"""The partition of a message: chosen by a partitioner of librdkafka, or by one of ours, which sets the partition.

librdkafka has no round robin, and its CRC-32 puts messages without a key on one partition for a moment. `keyed-crc32`
is Tidegate's original partitioner: a topic written with it keeps its keys on their partitions.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from itertools import count

Chooser = Callable[[bytes | None], int]  # of a key, the partition

WORDS: Mapping[str, str] = {
    "keyed": (
        "by the murmur2 hash of the key, like the Java producer; messages without a key stay on one partition for "
        "a short time"
    ),
    "keyed-crc32": "by the CRC-32 of the key; without a key, each partition in turn",
    "sticky": "one partition for a moment, then another; a message with a key goes anywhere",
    "round-robin": "each partition in turn, whatever the key",
}
LIBRARY: Mapping[str, str] = {"keyed": "murmur2_random", "sticky": "random"}  # ours → librdkafka's
OF_TOPICS_THAT_EXIST = "keyed-crc32"


def one_partition(partitioner: str) -> int | None:
    """Return N of `partition=N`; None for another partitioner."""
    found = re.fullmatch(r"partition=(\d{1,6})", partitioner)
    return int(found[1]) if found else None


def librarys(partitioner: str) -> str | None:
    """Return librdkafka's name of the partitioner; None for one of ours."""
    ours = partitioner in {*WORDS} - {*LIBRARY} or one_partition(partitioner) is not None
    return None if ours else LIBRARY.get(partitioner, partitioner)


def chooser(partitioner: str, partitions: int) -> Chooser:
    """Return the function of one of our own partitioners, which chooses a partition from 0 to `partitions` - 1."""
    number, turn = one_partition(partitioner), count()
    if number is not None:
        return lambda _key: number
    if partitioner == "round-robin":
        return lambda _key: next(turn) % partitions
    return lambda key: (next(turn) if key is None else zlib.crc32(key)) % partitions
