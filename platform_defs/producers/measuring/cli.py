"""`tidegate presets measure`: each preset under real faults, on three brokers of its own."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from platform_defs.cli.output import Output, OutputOption, print_answer, print_line, print_table, progress
from platform_defs.errors.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from platform_defs.producer_options.presets import Preset
    from platform_defs.producers.measuring.faults import Fault
    from platform_defs.producers.measuring.measure import Broken
    from platform_defs.producers.measuring.measured import Measured
    from platform_defs.producers.measuring.sweeps import Swept


class Vary(StrEnum):
    """The options that can be varied (producers/measuring/sweeps.py)."""

    acks = "acks"
    linger = "linger"
    batch = "batch"
    compression = "compression"
    all = "all"


def measure(
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

    The command starts three Kafka brokers of its own under TIDEGATE_HOME, and
    stops them and deletes their data at the end; no other cluster is touched,
    regardless of TIDEGATE_KAFKA_*. It sends numbered messages (2,000 per
    second in a round with a fault), injects the fault meanwhile, and compares
    the log with the producer's delivery reports. A round takes 3 to 40 s.

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
    if vary:
        if preset != ["all"] or fault != ["all"]:
            raise typer.BadParameter("--vary measures one producer without a fault: leave out --preset and --fault")
        _sweep(vary, rounds, messages, docs, output)
        return
    from platform_defs.producers.measuring.measure import Broken
    from platform_defs.producers.measuring.measure import measure as run
    from platform_defs.producers.measuring.page import BEGIN, END, PAGE, between
    from platform_defs.settings.settings import settings

    wanted = _wanted(preset, fault)
    found: list[Measured | Broken] = []
    if docs is not None:
        between(docs / PAGE, BEGIN, END)
    with progress() as show, closing(run(settings().home, wanted, rounds, messages, show)) as pairs:
        for one in pairs:  # closed, or an interrupt here would leave the brokers running
            found.append(one)
            _keep(one, docs, show)
    measured = [one for one in found if not isinstance(one, Broken)]
    print_answer([asdict(one) for one in found], lambda: _print(measured), output)
    if len(measured) < len(found) or any(one.fired < one.rounds for one in measured):
        raise typer.Exit(1)


def _sweep(vary: list[Vary], rounds: int, messages: int, docs: Path | None, output: Output) -> None:
    from platform_defs.producers.measuring.page import PAGE, between
    from platform_defs.producers.measuring.sweep_page import BEGIN, END, write_sweeps
    from platform_defs.producers.measuring.sweeping import Unmeasured, sweep
    from platform_defs.producers.measuring.sweeps import settings_of
    from platform_defs.settings.settings import settings

    found: list[Swept | Unmeasured] = []
    if docs is not None:
        between(docs / PAGE, BEGIN, END)
    wanted = settings_of([item.value for item in vary])
    with progress() as show, closing(sweep(settings().home, wanted, rounds, messages, show)) as settings_measured:
        for one in settings_measured:
            found.append(one)
            if isinstance(one, Unmeasured):
                show(f"{one.vary} {one.value}, {one.load} load: not measured: {one.error}")
            elif docs is not None:
                write_sweeps(docs, [one])
    swept = [one for one in found if not isinstance(one, Unmeasured)]
    print_answer([asdict(one) for one in found], lambda: _print_sweeps(swept), output)
    if len(swept) < len(found):
        raise typer.Exit(1)


def _print_sweeps(swept: list[Swept]) -> None:
    """Print a table for each sweep, which fits into 80 columns."""
    from platform_defs.producers.measuring.sweeps import VARIED

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


def _keep(one: Measured | Broken, docs: Path | None, show: Callable[[str], None]) -> None:
    """Write the row of a pair, or report why there is none."""
    from platform_defs.producers.measuring.measure import Broken
    from platform_defs.producers.measuring.page import write

    if isinstance(one, Broken):
        show(f"{one.fault}, {one.preset}: not measured: {one.error}")
    elif one.fired < one.rounds:
        show(f"{one.fault}, {one.preset}: the fault took effect in only {one.fired} of {plural(one.rounds, 'round')}")
    elif docs is not None:
        write(docs, [one])


def _wanted(presets: list[str], faults: list[str]) -> list[tuple[Fault, list[Preset]]]:
    """Return the pairs to measure. Raises typer.BadParameter for an unknown name, and if nothing is left to measure."""
    from platform_defs.producer_options.presets import PRESETS
    from platform_defs.producers.measuring.faults import FAULTS, pairs

    for option, given, known in (("--preset", presets, PRESETS), ("--fault", faults, FAULTS)):
        for name in given:
            if name not in (*known, "all"):
                raise typer.BadParameter(f"{option} {name} is unknown; use all or one of {', '.join(known)}")
    found = pairs(presets, faults)
    if not found:
        raise typer.BadParameter(
            "the fault zombie applies to transactions only: measure it with --preset transactional"
        )
    return found


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
