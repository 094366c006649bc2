"""One run: the stack, the topics, the paths and peers, round by round; and the tables of it."""

import os
from collections.abc import Callable, Collection
from contextlib import nullcontext

from bench import formats
from bench.aims import Figure
from bench.ending import stack_up
from bench.paths import AIMS, PARTITIONS, PATHS, Bench
from bench.peers.measured import PEER_AIMS, peers_up
from bench.rounds import conditions, measure, tables
from resources.postgres import auditor

MESSAGES = 2_000_000  # two batches, so that what one does beside the other counts
Say = Callable[[str], None]


def compare(
    messages: int, rounds: int, say: Say, *, only: Collection[str] = (), with_peers: bool = False
) -> list[Figure]:
    """Measure the paths (all, or `only` these) and print their tables; the figures that have an aim."""
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
    measured = [path for path in paths if path.name in seen]
    print(f"{conditions(messages, rounds)}\n\n{tables(seen, measured)}")
    return [aim.figure(seen) for aim in (*AIMS, *PEER_AIMS) if aim.path in seen and aim.against in seen]
