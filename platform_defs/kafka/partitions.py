"""The partitions of a topic that a user names."""

from collections.abc import Sequence

from platform_defs.errors import BadInput


def check_partitions(topic: str, there: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """Return the partitions to read, ascending. Raises BadInput if the topic does not have one of them."""
    if missing := sorted(set(wanted) - set(there)):
        has = f"partitions 0 to {len(there) - 1}" if len(there) > 1 else "partition 0 alone"
        raise BadInput(f"{topic} has no partition {missing[0]}; it has {has}", field="--partition")
    return tuple(sorted(set(wanted) or there))
