"""The positions of pipelines, for the ledger's readers and for a run that has one leased."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from platform_defs.offsets import Position
from platform_defs.postgres.connection import Connection, queries


def positions_of(connection: Connection, pipelines: Sequence[str]) -> Mapping[str, list[Position]]:
    """Return the position in each partition, in order, by pipeline. Each pipeline's are all from one topic."""
    found: dict[str, list[Position]] = defaultdict(list)
    for pipeline, *position in connection.execute(queries()["positions"], {"pipelines": list(pipelines)}):
        found[pipeline].append(Position(*position))
    return found
