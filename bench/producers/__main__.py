"""Each preset under real faults, on three real brokers, and the speed of one option at a time.

    python -m bench.producers [--preset NAME] [--fault NAME] [--rounds 1] [--docs docs]
    python -m bench.producers --vary acks [--vary linger] [--rounds 1] [--docs docs]

Starts three Kafka brokers of its own under TIDEGATE_HOME, and stops them and deletes their data at the end; no other
cluster is touched, regardless of TIDEGATE_KAFKA_*. docs/explanation/producers.md explains the faults and the figures.
"""

from contextlib import closing
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

import typer

from bench.ending import ended_by_signals
from bench.producers.faults import FAULTS, Fault, pairs
from bench.producers.measure import Broken, measure
from bench.producers.measured import Measured
from bench.producers.page import BEGIN, END, PAGE, between, write
from bench.producers.sweep_page import write_sweeps
from bench.producers.sweeping import Unmeasured, sweep
from bench.producers.sweeps import VARIED, Swept, settings_of
from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table, progress
from platform_defs.errors.words import plural
from platform_defs.producer_options.presets import PRESETS, Preset
from platform_defs.settings.settings import settings


class Vary(StrEnum):
    """The options that --vary takes (sweeps.py)."""

    acks = "acks"
    linger = "linger"
    batch = "batch"
    compression = "compression"
    all = "all"


def main(
    preset: list[str] = typer.Option(["all"], "--preset", help="A preset; may be repeated."),
    fault: list[str] = typer.Option(["all"], "--fault", help="A fault; may be repeated."),
    vary: list[Vary] = typer.Option(
        [], "--vary", help="Vary this option instead, and keep all others; may be repeated.", show_default="nothing"
    ),
    rounds: int = typer.Option(1, "--rounds", min=1, help="Rounds for each pair of preset and fault, or each value."),
    messages: int = typer.Option(100_000, "--messages", min=1_000, help="Messages in a round without a fault."),
    docs: Path | None = typer.Option(
        None, "--docs", help="Update the table and the plot of explanation/producers.md in this folder."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Measure what presets lose, duplicate and reorder under real faults.

    It sends numbered messages (2,000 per second in a round with a fault),
    injects the fault meanwhile, and compares the log with the producer's
    delivery reports. A round takes 3 to 40 s.

    \b
    Faults:
      none           no fault; messages are sent at full speed
      broker_kill    the leader is killed, and started again after 3 s
      leader_loss    the leader is killed while its followers are frozen
      unclean        a follower that was out of sync is elected
      cut_answers    connections are reset before a response arrives
      isr_flap       min.insync.replicas is raised and lowered ten times
      away           all brokers are down for longer than message.timeout.ms
      zombie         a producer frozen in a transaction outlives its successor
                     (transactional only)

    \b
    JSON: a list with one object for each pair
      preset, fault, rounds
      fired                rounds in which the fault took effect
      sent, delivered, failed   messages, by the producer's delivery reports
      lost                 reported as delivered, but not in the log
      doubled              in the log more than once
      reordered            after a later message of the same key
      ghosts               reported as failed, but in the log
      messages_per_second  delivered; the median of the rounds
      p50_ms, p99_ms, max_ms    from send to acknowledgement
      longest_stall_ms     the longest time without a delivery
    A pair that ended with an error has only preset, fault and error. With
    --docs, each row is written as soon as its last round is over. The exit
    code is 1 if a pair ended with an error, or its fault did not take effect
    in every round; the row of such a pair is not written.

    --vary measures speed: it tries each value of one option, keeps all other
    options, and injects no fault. Each value is measured at full speed (load
    full) and at 5,000 messages a second (load steady), which says more about
    latency. Batches and bytes are from librdkafka's statistics.

    \b
    Sweeps:
      acks         0, 1, all
      linger       linger.ms 0, 1, 5, 20, 100
      batch        batch.size 16384, 65536, 262144, 1000000
      compression  none, gzip, snappy, lz4, zstd
      all          each of them

    \b
    JSON with --vary: a list with one object for each value and load
      vary, value, load, rounds
      messages_per_second  delivered; the median of the rounds
      slowest, fastest     round, in messages a second
      p50_ms, p99_ms       the medians of the rounds
      least_p99_ms         the lowest of the rounds
      batch_messages, batch_bytes   of the average batch, compressed
      wire_bytes           sent to brokers per message
      compression_ratio    bytes of keys and values per byte of a batch
    A measurement that failed has only vary, value, load and error.
    """
    if vary and (preset != ["all"] or fault != ["all"]):
        raise typer.BadParameter("--vary measures one producer without a fault: leave out --preset and --fault")
    for option, names, known in (("--preset", preset, PRESETS), ("--fault", fault, FAULTS)):
        for name in names:
            if name not in (*known, "all"):
                raise typer.BadParameter(f"{option} {name} is unknown; use all or one of {', '.join(known)}")
    wanted = pairs(preset, fault)
    if not wanted:
        raise typer.BadParameter(
            "the fault zombie applies to transactions only: measure it with --preset transactional"
        )
    if docs is not None:
        between(docs / PAGE, BEGIN, END)  # refuses a page without the lines before anything is measured
    with ended_by_signals():
        if vary:
            complete = _vary(vary, rounds, messages, docs, output)
        else:
            complete = _measure(wanted, rounds, messages, docs, output)
    if not complete:
        raise typer.Exit(1)


def _measure(
    wanted: list[tuple[Fault, list[Preset]]], rounds: int, messages: int, docs: Path | None, output: Output
) -> bool:
    """Measure each pair and print the results. Return False if a pair ended with an error or missed its fault."""
    results: list[Measured | Broken] = []
    with progress() as show, closing(measure(settings().home, wanted, rounds, messages, show)) as measurements:
        for result in measurements:  # closed, or an interrupt here would leave the brokers running
            results.append(result)
            if isinstance(result, Broken):
                show(f"{result.fault}, {result.preset}: not measured: {result.error}")
            elif result.fired < result.rounds:
                took_effect = f"{result.fired} of {plural(result.rounds, 'round')}"
                show(f"{result.fault}, {result.preset}: the fault took effect in only {took_effect}")
            elif docs is not None:
                write(docs, [result])
    measured = [result for result in results if not isinstance(result, Broken)]
    print_answer([asdict(result) for result in results], lambda: _print(measured), output)
    return len(measured) == len(results) and all(result.fired == result.rounds for result in measured)


def _vary(vary: list[Vary], rounds: int, messages: int, docs: Path | None, output: Output) -> bool:
    """Measure each value of these options and print the results. Return False if one ended with an error."""
    results: list[Swept | Unmeasured] = []
    wanted = settings_of([option.value for option in vary])
    with progress() as show, closing(sweep(settings().home, wanted, rounds, messages, show)) as measurements:
        for result in measurements:
            results.append(result)
            if isinstance(result, Unmeasured):
                show(f"{result.vary} {result.value}, {result.load} load: not measured: {result.error}")
            elif docs is not None:
                write_sweeps(docs, [result])
    swept = [result for result in results if not isinstance(result, Unmeasured)]
    print_answer([asdict(result) for result in results], lambda: _print_sweeps(swept), output)
    return len(swept) == len(results)


def _print_sweeps(swept: list[Swept]) -> None:
    """Print a table for each sweep, which fits into 80 columns."""

    heads = ["value", "load", "per second", "p50 ms", "p99 ms", "batch msgs", "batch bytes", "B/message", "ratio"]
    for vary, (option, _) in VARIED.items():
        rows = [
            [
                *(one.value, one.load, one.messages_per_second, one.p50_ms, one.p99_ms),
                *(one.batch_messages, one.batch_bytes, one.wire_bytes, one.compression_ratio),
            ]
            for one in swept
            if one.vary == vary
        ]
        if rows:
            print_table(heads, rows, title=option, dense=True)


def _print(measured: list[Measured]) -> None:
    """Print two tables, each of which fits into 80 columns."""
    heads = ["preset", "fault", "fired", "sent", "failed", "lost", "doubled", "reordered", "ghosts"]
    counts = [
        [
            *(one.preset, one.fault, f"{one.fired}/{one.rounds}", one.sent, one.failed, one.lost, one.doubled),
            *(one.reordered, one.ghosts),
        ]
        for one in measured
    ]
    print_table(heads, counts, dense=True)
    print_line("")
    speeds = [
        [
            *(one.preset, one.fault, one.messages_per_second, _ratio(one, measured)),
            *(one.p50_ms, one.p99_ms, one.max_ms, one.longest_stall_ms),
        ]
        for one in measured
    ]
    print_table(
        ["preset", "fault", "per second", "ratio", "p50 ms", "p99 ms", "max ms", "stall ms"], speeds, dense=True
    )


def _ratio(one: Measured, measured: list[Measured]) -> str | None:
    """Return its throughput relative to at_least_once's, without a fault."""
    plain = [other for other in measured if (other.preset, other.fault) == ("at_least_once", "none")]
    if one.fault != "none" or not plain:
        return None
    return f"{one.messages_per_second / plain[0].messages_per_second:.2f}"


if __name__ == "__main__":
    typer.run(main)
