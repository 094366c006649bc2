"""One run: the stack, the topics, the paths and peers, round by round; and the tables of it."""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from bench import formats
from bench.ending import stack_up
from bench.paths import AIMS, PARTITIONS, PATHS, Bench, Path
from bench.peers.measured import PEER_AIMS, peers_up
from bench.reports import picture
from bench.reports.aims import Result, Seen
from bench.reports.page import draw
from bench.rounds import conditions, measure, tables
from platform_defs.engine.commit import auditor

MESSAGES = 2_000_000  # two batches, so that concurrent work on them counts
Say = Callable[[str], None]


@dataclass(frozen=True)
class Compared:
    """The paths that were measured, and their speed in each round."""

    seen: Seen
    paths: Sequence[Path]
    conditions: str

    @property
    def result(self) -> Result:
        """The tables, and the figures that have an aim."""
        figures = [aim.figure(self.seen) for aim in (*AIMS, *PEER_AIMS) if {aim.path, aim.against} <= self.seen.keys()]
        return Result(f"{self.conditions}\n\n{tables(self.seen, self.paths)}", figures)

    def draw(self) -> str:
        """Write the plot of the speeds. Return the page's line that shows it."""
        ours = {path.name: path.ours and path.against is not None for path in self.paths}
        return draw("bench-paths.svg", "Messages a second of each path", picture.speeds(self.seen, ours))


def compare(messages: int, rounds: int, say: Say, *, only: Collection[str] = (), with_peers: bool = False) -> Compared:
    """Measure the paths, all or `only` these."""
    paths = [path for path in PATHS if not only or path.name in only]
    written = (formats.JSON,) if only else formats.ALL
    os.environ["TIDEGATE_REGISTRY_NAME"] = formats.REGISTRY
    with stack_up(lambda text: say(text)):
        auditor.load()
        bench = Bench(messages)
        try:
            say(f"filling {len(written)} topics with {messages:,} messages each ...")
            formats.fill(bench.options, bench.topic, messages, PARTITIONS, written)
            formats.know_schemas(bench.endpoints.postgres_url)
            with peers_up(bench, say) if with_peers else nullcontext([]) as peers:
                paths += peers
                seen = measure(bench, paths, rounds, say)
        finally:
            bench.close()
    return Compared(seen, [path for path in paths if path.name in seen], conditions(messages, rounds))
