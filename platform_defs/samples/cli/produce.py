"""`tidegate produce`: generated messages of a pipeline's contract, with a known number of bad ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from platform_defs.cli.options import PipelineArgument, PresetOption
from platform_defs.cli.output import Output, OutputOption, print_answer, print_error, print_fields, print_line, progress
from platform_defs.cli.signals import until_signal
from platform_defs.errors import BadInput
from platform_defs.errors.words import plural
from platform_defs.producer_options.values import read_option

if TYPE_CHECKING:
    from platform_defs.contract.model.contract import Contract
    from platform_defs.producer_options.config import Chosen
    from platform_defs.producer_options.options import Value
    from platform_defs.samples.mixture import Sending

ONE_BAD_IN = 10_000  # if --count is given and neither --bad nor --bad-share
TICK = 0.05  # seconds between bursts of --rate
BURST = 50_000  # messages between two lines of progress
SHOWN_EVERY = 5.0  # seconds between two lines of progress, with --rate


def produce(
    pipeline: PipelineArgument,
    count: int | None = typer.Option(
        None, min=1, help="Number of messages.", show_default="1000, or endless with --rate"
    ),
    rate: float | None = typer.Option(None, min=0.1, help="Messages per second, until Ctrl-C, --count or --seconds."),
    seconds: float | None = typer.Option(None, min=0, help="With --rate: how long to send, in seconds."),
    bad: int | None = typer.Option(
        None, min=0, help="Number of bad messages among them.", show_default="1 in 10,000; none with --rate"
    ),
    bad_share: float | None = typer.Option(None, min=0, max=1, help="The share of bad messages, such as 0.01."),
    seed: int | None = typer.Option(None, help="Generate the same messages each time, except for ids and times."),
    partitions: int = typer.Option(
        4, min=1, help="Number of partitions, if the topic must be created and its contract declares none."
    ),
    preset: PresetOption = None,
    partitioner: str | None = typer.Option(
        None,
        help="keyed, keyed-crc32, sticky, round-robin, partition=N, or a librdkafka partitioner.",
        show_default="the contract's, else keyed-crc32",
    ),
    option: list[str] = typer.Option(
        [], metavar="NAME=VALUE", help="A librdkafka option; may be repeated.", show_default="none"
    ),
    ids: bool = typer.Option(
        True, help="Add the header tidegate-id to each message, so that tidegate unsent send can find it in the log."
    ),
    output: OutputOption = Output.human,
) -> None:
    """Send generated messages, and report which dead letters to expect.

    The messages fit the pipeline's contract, except for the bad ones that you
    ask for. They are written in the contract's format; Avro, Protobuf and
    framed JSON use the schema registered under its subject. This command never
    registers a schema: use tidegate contract register. It stops at the first
    message that Kafka does not acknowledge, with exit code 1; undelivered
    messages are kept for tidegate unsent send.

    \b
    JSON:
      pipeline, topic, preset, partitioner
      produced    messages passed to the producer: good, tombstones, bad
      delivered   messages acknowledged (with acks=0: written to the socket)
      failed      messages not acknowledged, by librdkafka's error code
      unsent      messages that are kept for tidegate unsent send
      bad         dead letters to expect, by reason
      partitions  delivered messages, by partition
      latency_ms  p50, p99, max, from the call to the acknowledgement
      seconds, messages_per_second (acknowledged)
    """
    from platform_defs.producers.producer import Producer
    from platform_defs.producers.unsent.sink import kept_where, sink
    from platform_defs.samples.mixture import Mixture, Sending, samples_of
    from platform_defs.settings.contracts import find_contract, read_contracts
    from platform_defs.stack.endpoints import connection
    from platform_defs.topics.admin import made_topic
    from platform_defs.topics.declared import first_made

    amount = _amount(count, rate, seconds, bad, bad_share)
    contract = find_contract(pipeline)
    endpoints = connection()
    options = endpoints.kafka_options()
    chosen = chosen_for(contract, preset, partitioner, option, endpoints.librdkafka)
    with progress() as show:
        samples, headers = samples_of(contract, endpoints.registry, seed)
        mixture = Mixture(samples, amount.bad_share)
        there = made_topic(options, contract.topic, lambda: first_made(contract.topic, read_contracts(), partitions))
        producer = Producer(
            options,
            contract.topic,
            chosen,
            client_id=f"tidegate.{contract.pipeline}.produce",
            ids=ids,
            partitions=there,
            unsent=(unsent := sink(contract.pipeline, contract.topic, options, endpoints.postgres_url)),
        )
        sending = Sending(producer, mixture, tuple(headers))
        with telling(lambda: kept_where(unsent)), producer:
            _send(sending, amount, show)
    _report(_answer(contract, sending, unsent.kept), output, kept_where(unsent))


@contextmanager
def telling(kept: Callable[[], str]) -> Generator[None]:
    """Report what is kept also if an error ends the command."""
    try:
        yield
    except BaseException:
        if message := kept():
            print_error(message)
        raise


@dataclass(frozen=True)
class _Amount:
    """The number of messages to send, their rate, and the share of bad ones."""

    total: int | None  # None: endless
    rate: float | None  # messages a second; None: as fast as Kafka takes them
    seconds: float | None
    bad_share: float


def _amount(
    count: int | None, rate: float | None, seconds: float | None, bad: int | None, bad_share: float | None
) -> _Amount:
    """Return what the options request. Raises typer.BadParameter if they contradict each other."""
    total = count if count or rate else 1_000
    if bad is not None and bad_share is not None:
        raise typer.BadParameter("use either --bad or --bad-share, not both")
    if seconds is not None and rate is None:
        raise typer.BadParameter("--seconds requires --rate")
    if bad is not None and total is None:
        raise typer.BadParameter("--bad requires --count; with --rate alone, use --bad-share")
    if bad is not None and total is not None and bad > total:
        raise typer.BadParameter(f"--bad {bad} is more than the {plural(total, 'message')} to send")
    if bad_share is None:
        bad_share = 0.0 if total is None else (total // ONE_BAD_IN if bad is None else bad) / total
    return _Amount(total, rate, seconds, bad_share)


def _send(sending: Sending, amount: _Amount, show: Callable[[str], None]) -> None:
    if amount.rate is not None:
        _send_at_rate(sending, amount, amount.rate, show)
    else:
        total = amount.total or 0
        for done in range(0, total, BURST):
            sending.send(min(BURST, total - done))
            if sending.failed:
                break
            show(f"{sending.total:,} of {plural(total, 'message')} sent")
    sending.finish()


def _send_at_rate(sending: Sending, amount: _Amount, rate: float, show: Callable[[str], None]) -> None:
    """Send `rate` messages a second until the time is over, all messages are sent, or a signal stops it."""
    started, shown_at = time.monotonic(), 0.0
    with until_signal() as received:
        while not received and not sending.failed:
            elapsed = time.monotonic() - started
            due = int(rate * min(elapsed, elapsed if amount.seconds is None else amount.seconds))
            due = due if amount.total is None else min(due, amount.total)
            sending.send(due - sending.total)
            if due == amount.total or (amount.seconds is not None and elapsed >= amount.seconds):
                return
            if elapsed - shown_at >= SHOWN_EVERY:
                show(f"{plural(sending.total, 'message')} sent")
                shown_at = elapsed
            time.sleep(TICK)


def _answer(contract: Contract, sending: Sending, unsent: int) -> dict[str, Any]:
    """Return the document that the help describes."""
    mixture, producer, counts = sending.mixture, sending.producer, sending.producer.counts
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        "pipeline": contract.pipeline,
        "topic": contract.topic,
        "preset": producer.chosen.preset.name,
        "partitioner": producer.chosen.partitioner,
        "produced": sending.total,
        "delivered": counts.delivered,
        "failed": dict(counts.failed),
        "unsent": unsent,
        "good": mixture.good,
        "tombstones": mixture.tombstones,
        "bad": dict(mixture.bad),
        "partitions": {str(number): messages for number, messages in sorted(counts.partitions.items())},
        "latency_ms": {name: counts.latencies.milliseconds(share) for name, share in shares.items()},
        "seconds": round(sending.seconds, 3),
        "messages_per_second": round(counts.delivered / max(sending.seconds, 1e-9)),
    }


def _report(sent: dict[str, Any], output: Output, kept: str) -> None:
    """Print what was sent, and where the rest is `kept`. Raises typer.Exit if some of it was not acknowledged."""
    print_answer(sent, lambda: _print(sent), output)
    if sent["failed"]:
        failed = ", ".join(f"{messages:,} {reason}" for reason, messages in sent["failed"].items())
        print_error(
            f"Kafka did not acknowledge {sum(sent['failed'].values()):,} of {plural(sent['produced'], 'message')} to "
            f"topic {sent['topic']}: {failed}. Nothing more was sent. {kept}"
        )
        raise typer.Exit(1)


def _print(sent: dict[str, Any]) -> None:
    messages, delivered = plural(sent["produced"], "message"), sent["delivered"]
    how = f"in {sent['seconds']:.1f} s ({sent['messages_per_second']:,} a second), preset {sent['preset']}"
    if failed := sum(sent["failed"].values()):
        print_line(f"{delivered:,} of {messages} to topic {sent['topic']} acknowledged {how}")
        print_fields({"handed over": sent["produced"], "acknowledged": delivered, "not acknowledged": failed})
    else:
        print_line(f"{messages} sent to topic {sent['topic']} {how}")
        print_fields({"good": sent["good"], "tombstones": sent["tombstones"], "bad": sum(sent["bad"].values())})
    if delivered:
        print_fields({f"{name} until acknowledged": f"{value} ms" for name, value in sent["latency_ms"].items()})
    if sent["bad"]:
        print_line("Dead letters to expect, at most:" if failed else "Dead letters to expect:")
        print_fields({f"  {reason}": number for reason, number in sent["bad"].items()})


def chosen_for(
    contract: Contract,
    preset: str | None,
    partitioner: str | None,
    options: Sequence[str],
    environment: Mapping[str, str],
) -> Chosen:
    """Return the preset and options to send with. Raises typer.BadParameter, or BadInput for a contradiction."""
    given: dict[str, Value] = {}
    for text in [*options, *([] if partitioner is None else [f"partitioner={partitioner}"])]:
        name, sign, value = text.partition("=")
        if not sign:
            raise typer.BadParameter(f"--option is NAME=VALUE, such as linger.ms=50, not {text!r}")
        try:
            given.update([read_option(name, value)])
        except BadInput as error:
            raise typer.BadParameter(error.problem) from None
    return contract.producing.chosen(preset, environment, given)
