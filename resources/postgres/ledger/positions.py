"""Where pipelines are, for the ledger's readers and for a run that holds one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from platform_defs.offsets import Position
from resources.postgres.session.connection import Connection, queries


def positions_of(connection: Connection, pipelines: Sequence[str]) -> Mapping[str, list[Position]]:
    """By pipeline, the position in each partition, in order. All of one are of one topic: the one that was read."""
    found: dict[str, list[Position]] = defaultdict(list)
    for pipeline, *position in connection.execute(queries()["positions"], {"pipelines": list(pipelines)}):
        found[pipeline].append(Position(*position))
    return found
