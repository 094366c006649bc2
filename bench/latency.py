"""The time that a message waits until its row is visible, in a pipeline whose latency is a second.

    python -m bench.latency [--idle 30] [--seconds 60] [--rate 1000] [--no-handovers] [--write]

Starts its own stack and Dagster under TIDEGATE_HOME, stops both at the end, and deletes what they wrote. The run is the
sensor's, as in production. bench/waiting.py sends the messages and watches their rows.
"""

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import typer
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from bench.ending import ended_by_signals, own_home, say, stack_up, undisturbed
from bench.many.load import create_topics
from bench.many.plan import PARTITIONS
from bench.many.processes import cpu_seconds, memory_mb, shares
from bench.reports.aims import Figure, Result
from bench.reports.page import write_between
from bench.waiting import PIPELINE, TOPIC, Messages, at_rate, one_by_one, wait_until, watched
from platform_defs.dagster.keys import CONTINUOUS, HANDS_OVER, LEAVE
from platform_defs.pipelines.sensors import IT_STAYS
from platform_defs.settings.settings import PROJECT_ROOT
from platform_defs.stack import dagster_dev as ui
from platform_defs.stack import stack
from platform_defs.stack.endpoints import connection

BEGIN, END = "<!-- bench.latency: begin -->", "<!-- bench.latency: end -->"
TEMPLATE = PROJECT_ROOT / "assets" / "web" / "page_views.odcs.yaml"
QUIET = 20.0  # seconds without messages, for the CPU
BATCHES = "SELECT count(*), avg(messages) FROM tidegate.batch WHERE committed_at >= to_timestamp(%s)"
EVENTS = (
    "SELECT count(*), count(*) FILTER (WHERE dagster_event_type = 'ASSET_MATERIALIZATION') FROM dagster.event_logs"
    " WHERE timestamp >= to_timestamp(%s)::timestamp"
)
WARM = 60.0  # seconds of messages that do not count: the JVM is compiling its code
HANDOVERS = {LEAVE: 60.0, HANDS_OVER: 120.0}  # by the tag that asks for it, the seconds that are watched
CHANGES = ("a run leaves, as at a deployment (60 s)", "a run hands over, as at its budget (120 s)")
IDLE = 12  # single messages, by default
SEEN = "produce to row visible"
HEADER = ("|  | median | p99 | worst | aim |", "| --- | --- | --- | --- | --- |")


def handed_over(messages: Messages, rate: int, tag: str) -> tuple[float, float]:
    """Tag the busy pipeline's run, so that the sensor starts another; return the start and the end of the time. Raises
    ValueError if no other run is at work at the end.
    """
    with DagsterInstance.from_config(str(PROJECT_ROOT)) as instance:
        before = _at_work(instance)
        for run_id in before:
            instance.add_run_tags(run_id, {tag: "the benchmark asks for it"})
        began, until = at_rate(messages, rate, HANDOVERS[tag])
        if (after := _at_work(instance)) == before or len(after) != 1:
            raise ValueError(f"runs {before} were at work, and then {after}")
    return began, until


def _at_work(instance: DagsterInstance) -> list[str]:
    """Return the ids of the runs that stay."""
    filters = RunsFilter(tags={CONTINUOUS: IT_STAYS}, statuses=[DagsterRunStatus.STARTED])
    return [run.run_id for run in instance.get_runs(filters)]


def percentile(waited: Sequence[float], share: float) -> float:
    return waited[min(len(waited) - 1, int(len(waited) * share))]


def row(name: str, waited: Sequence[float], aim: str) -> str:
    shares = " | ".join(f"{percentile(waited, share):.2f} s" for share in (0.5, 0.99, 1.0))
    return f"| {name} ({len(waited):,} messages) | {shares} | {aim} |"


def run_memory_mb(home: Path) -> float:
    """Return the memory of the run, its JVM and its Python workers: the Dagster process that has a JVM below it."""
    for process in ui.running(home):
        children = process.children(recursive=True)
        if any(child.name() == "java" for child in process.children()):
            return memory_mb([process, *children])
    return 0.0


def result(say: Callable[[str], None], _messages: int) -> Result:
    """Measure without hand-overs, and for a shorter time."""
    return measure(IDLE, 45.0, 1_000, False, say)


def idle_result(say: Callable[[str], None], _messages: int) -> Result:
    """Measure only single messages, into a run that has just started."""
    with _running(say) as (_, messages, _):
        cold = _begun(messages, IDLE, say)
    text = "\n".join([_setting(), "", *HEADER, _cold_row(cold)])
    return Result(text, [_idle_figure("idle before, a run that has just started", cold)])


def measure(idle: int, seconds: float, rate: int, handovers: bool, say: Callable[[str], None]) -> Result:
    with _running(say) as (home, messages, database):
        return _measured(home, messages, database, idle, seconds, rate, handovers, say)


@contextmanager
def _running(say: Callable[[str], None]) -> Generator[tuple[Path, Messages, psycopg.Connection]]:
    """Start a stack with Dagster and the one contract, whose topic has one message; yield a connection, too."""
    with own_home("bench-latency", _stop_what_a_killed_one_left) as home, stack_up(say), _contract(home):
        endpoints = connection()
        create_topics(endpoints.kafka_options(), [TOPIC])
        messages = Messages(endpoints.kafka_options())
        messages.send(1)
        say("starting Dagster")
        try:
            ui.up(say)
            with watched(endpoints.postgres_url, messages) as database:
                yield home, messages, database
        finally:
            with undisturbed():
                ui.down()


def _begun(messages: Messages, idle: int, say: Callable[[str], None]) -> Sequence[float]:
    """Return the waiting times of single messages after the first arrived: the run has just started."""
    first = wait_until(lambda: messages.unread == 0)
    say(f"the first row after {first:.0f} s; {idle} single messages")
    return messages.waited(*one_by_one(messages, idle))


def _measured(
    home: Path,
    messages: Messages,
    database: psycopg.Connection,
    idle: int,
    seconds: float,
    rate: int,
    handovers: bool,
    say: Callable[[str], None],
) -> Result:
    cold = _begun(messages, idle, say)
    say(f"{WARM:.0f} s of messages that do not count")
    at_rate(messages, rate, WARM)
    say(f"{seconds:.0f} s of {rate} messages a second")
    before = run_memory_mb(home)
    began, until = at_rate(messages, rate, seconds)
    after = run_memory_mb(home)
    wait_until(lambda: messages.unread == 0)
    busy = messages.waited(began, until)
    (batches, each) = database.execute(BATCHES, [began]).fetchone() or (0, 0)
    (events, shown) = database.execute(EVENTS, [began]).fetchone() or (0, 0)
    say(f"{QUIET:.0f} s without messages, then {idle} single ones")
    cpu = cpu_seconds(home)
    time.sleep(QUIET)  # what is measured
    used = shares(cpu, cpu_seconds(home), QUIET)
    warm = messages.waited(*one_by_one(messages, idle))
    over: list[Sequence[float]] = []
    for tag in HANDOVERS if handovers else ():
        say(f"the run gets the tag {tag}, under {rate} messages a second")
        change = handed_over(messages, rate, tag)
        wait_until(lambda: messages.unread == 0)
        over.append(messages.waited(*change))
    lines = [
        *HEADER,
        _cold_row(cold),
        row("idle before, a warm run", warm, "p50 ≤ 2 s"),
        row(f"busy, {rate:,} messages/s", busy, "p50 ≤ 0.5 s, p99 ≤ 1.5 s"),
        *(row(f"busy, {name}", waited, "") for name, waited in zip(CHANGES, over, strict=False)),
    ]
    text = "\n".join(
        [
            _setting(),
            "",
            *lines,
            "",
            f"While it was busy: {batches / seconds:.1f} batches a second of {each:.0f} messages; {shown} "
            f"materializations and {events} events of Dagster's in {seconds:.0f} s; the run with its JVM and workers "
            f"used {before:,.0f} MB at the beginning and {after:,.0f} MB at the end.",
            "",
            "Without messages, shares of one core: "
            + ", ".join(f"{name} {share:.1%}" for name, share in used.items() if share >= 0.0005)
            + ".",
        ]
    )
    return Result(text, _figures(warm, busy, rate))


def _setting() -> str:
    return (
        f"{PARTITIONS} partitions, a contract with a latency of 1 s, linger.ms=5. {datetime.now(UTC):%Y-%m-%d}; "
        f"{os.cpu_count()} cores, broker, database and Dagster on the same cores."
    )


def _cold_row(cold: Sequence[float]) -> str:
    return row("idle before, a run that has just started", cold, "p50 ≤ 2 s")


def _idle_figure(when: str, waited: Sequence[float]) -> Figure:
    return Figure(f"{SEEN}, {when}, p50", percentile(waited, 0.5), 2, "at most", " s")


def _figures(idle: Sequence[float], busy: Sequence[float], rate: int) -> list[Figure]:
    name = f"{SEEN}, busy at {rate:,} messages/s"
    return [
        _idle_figure("idle before", idle),
        Figure(f"{name}, p50", percentile(busy, 0.5), 0.5, "at most", " s"),
        Figure(f"{name}, p99", percentile(busy, 0.99), 1.5, "at most", " s"),
    ]


@contextmanager
def _contract(home: Path) -> Generator[None]:
    """Write the one contract and name its folder in TIDEGATE_CONTRACTS while the block runs."""
    folder = home / "contracts" / "bench"
    folder.mkdir(parents=True)
    text = TEMPLATE.read_text().replace("web_page_views", PIPELINE).replace("web.page_views", TOPIC)
    text = text.replace("domain: web", "domain: bench").replace("name: page_views", "name: latency")
    text = text.replace("slaProperties:\n", "slaProperties:\n  - {property: latency, value: 1, unit: seconds}\n")
    (folder / "latency.odcs.yaml").write_text(text)
    before = os.environ.get("TIDEGATE_CONTRACTS")
    os.environ["TIDEGATE_CONTRACTS"] = str(folder.parent)
    try:
        yield
    finally:
        os.environ.pop("TIDEGATE_CONTRACTS")
        if before is not None:
            os.environ["TIDEGATE_CONTRACTS"] = before


def _stop_what_a_killed_one_left(home: Path) -> None:
    if home.exists():
        ui.down()
        stack.reset()


def main(
    idle: int = typer.Option(30, min=3, help="How many single messages, twice."),
    seconds: float = typer.Option(60.0, min=5, help="For how long the pipeline is busy."),
    rate: int = typer.Option(1_000, min=1, help="Messages a second while it is."),
    handovers: bool = typer.Option(True, help="Also while a run hands over to the next one (three minutes)."),
    write_page: bool = typer.Option(False, "--write", help="Put the table into docs/explanation/performance.md."),
) -> None:
    """Measure how long messages wait and print the result as Markdown."""
    with ended_by_signals():
        text = measure(idle, seconds, rate, handovers, say).text
    print(text)
    if write_page:
        write_between(BEGIN, text, END)


if __name__ == "__main__":
    typer.run(main)
