"""Does a pipeline slow down, or need more memory, when more is to be read at once?

    python -m bench.sizes [--small 1000000] [--large 20000000] [--rounds 2] [--seen]

Two topics, of so many messages; the staged path carries each of them, by turns, after passes that do not count. Memory
is the peak of Spark's JVM and all Python processes of the run together, sampled several times a second. A JVM keeps the
memory that it once took, so the small topic's is from the passes before the first large one.
"""

import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import psutil
import typer

from bench import formats
from bench.ending import ended_by_signals, say, stack_up, undisturbed
from bench.many.processes import memory_mb
from bench.paths import PARTITIONS, STAGED, Bench, Path, clean
from bench.reports.aims import Figure, Result, ratios, table
from bench.rounds import speed_of
from platform_defs.engine.commit import auditor
from platform_defs.settings.settings import settings
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack import postgres_server as postgres

AIM, MEMORY_AIM = 0.95, 1.1
LOOK = 0.2  # seconds between two samples of the memory


@dataclass
class Memory:
    """The peak memory in MB of this process and its children, except broker and database."""

    servers: frozenset[int] = frozenset()  # their process ids
    most: float = field(default=0.0)

    def look(self) -> None:
        """Take a sample."""
        this = psutil.Process()
        self.most = max(self.most, sum(map(self._of, [this, *this.children(recursive=True)])))

    def _of(self, process: psutil.Process) -> float:
        try:
            is_server = not self.servers.isdisjoint((process.pid, process.ppid()))  # a session has the server above it
            return 0.0 if is_server else memory_mb([process])
        except psutil.NoSuchProcess:
            return 0.0


@contextmanager
def watched() -> Generator[Memory]:
    """Yield the memory, sampled until the end."""
    home = settings().home
    memory = Memory(frozenset(server.pid for server in (*kafka.running(home), *postgres.running(home))))
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK):
            memory.look()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield memory
    finally:
        ended.set()
        watching.join()


@dataclass(frozen=True)
class Sizes:
    """Two numbers of messages, with the results for each."""

    small: int
    large: int
    speeds: dict[int, list[float]]
    memory: dict[int, float]

    @classmethod
    def from_json(cls, text: str) -> "Sizes":
        """Return the sizes from the output of `python -m bench.sizes --seen`."""
        seen = json.loads(text)
        by_size = {name: {int(size): found for size, found in seen[name].items()} for name in ("speeds", "memory")}
        return cls(seen["small"], seen["large"], by_size["speeds"], by_size["memory"])

    @property
    def figures(self) -> list[Figure]:
        """The figures that have an aim."""
        ratio = statistics.median(ratios(self.speeds[self.large], self.speeds[self.small]))
        more = self.memory[self.large] / self.memory[self.small]
        sizes = f"at {self.large:,} ÷ at {self.small:,}"
        return [
            Figure(f"messages/s {sizes}", ratio, AIM),
            Figure(f"most memory {sizes}", more, MEMORY_AIM, "at most"),
        ]

    @property
    def tables(self) -> str:
        """All of it, in Markdown."""
        lines = [
            f"| {size:,} | {statistics.median(self.speeds[size]):,.0f} | {self.memory[size]:,.0f} |"
            for size in (self.small, self.large)
        ]
        return "\n".join(["| messages | messages/s | most memory (MB) |", "|---|---|---|", *lines])


def result(say: Callable[[str], None], messages: int) -> Result:
    """Measure half as many messages, and ten times as many; one round. In a separate process: this one's JVM has the
    memory that other paths took.
    """
    sizes = ["--small", f"{max(1, messages // 2)}", "--large", f"{messages * 10}", "--rounds", "1"]
    say("more messages at once, in a process of its own ...")
    command = [sys.executable, "-m", "bench.sizes", *sizes, "--seen"]
    # A separate session: a terminal's Ctrl-C would come on top of the signal below, and cut short how it stops.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        text, _ = process.communicate()
    finally:
        process.terminate()  # if this process was interrupted, it is still running, and stops its stack now
        with undisturbed():
            process.wait()
    if process.returncode:
        raise RuntimeError(f"python -m bench.sizes ended with {process.returncode}")
    seen = Sizes.from_json(text.decode().splitlines()[-1])
    return Result(seen.tables, seen.figures)


def compare(small: int, large: int, rounds: int, say: Callable[[str], None]) -> Sizes:
    """Carry both by turns."""
    seen = Sizes(small, large, {small: [], large: []}, {small: 0.0, large: 0.0})
    with stack_up(say):
        auditor.load()
        bench = Bench(small)
        try:
            topics = {size: f"{bench.topic}-{size}" for size in (small, large)}
            for size, topic in topics.items():
                say(f"filling a topic with {size:,} messages ...")
                formats.fill(bench.options, topic, size, PARTITIONS, (formats.JSON,))
            for size in (small, small, large):
                _pass(bench, topics[size], size, seen, counts=False, say=say)
            for size in (small, large) * rounds:
                _pass(bench, topics[size], size, seen, counts=True, say=say)
        finally:
            bench.close()
    return seen


def _pass(bench: Bench, topic: str, size: int, seen: Sizes, *, counts: bool, say: Callable[[str], None]) -> None:
    bench.topic, bench.messages = topic, size
    clean(bench.endpoints.postgres_url)
    with watched() as memory:
        speed = speed_of(bench, Path(STAGED, Bench.staged, None))
    say(f"{'' if counts else '(does not count) '}{size:,} messages: {speed:,.0f} messages/s, {memory.most:,.0f} MB")
    if counts:
        seen.speeds[size].append(speed)
    if size == seen.large or not counts:
        seen.memory[size] = max(seen.memory[size], memory.most)


def main(
    small: int = typer.Option(1_000_000, min=1, help="Messages."),
    large: int = typer.Option(20_000_000, min=2, help="Messages."),
    rounds: int = typer.Option(2, min=1, help="That count."),
    as_seen: bool = typer.Option(False, "--seen", help="Print what was seen, as JSON, for `make bench`."),
) -> None:
    """Measure both, and print the figures and their aims."""
    with ended_by_signals():
        seen = compare(small, large, rounds, say)
    print(json.dumps(asdict(seen)) if as_seen else f"{seen.tables}\n\n{table(seen.figures)}")


if __name__ == "__main__":
    typer.run(main)
