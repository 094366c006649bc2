"""The options of a producer: preset < contract < environment < command line. None contradict each other."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from platform_defs.errors import BadInput
from platform_defs.producer_options.options import OPTIONS, PROMISED, Value, own_name
from platform_defs.producer_options.partitioners import OF_TOPICS_THAT_EXIST
from platform_defs.producer_options.presets import DEFAULT, PRESETS, Preset
from platform_defs.producer_options.values import read_option

NO_OPTIONS: Mapping[str, Value] = {}
NOTHING_SET: Mapping[str, str] = {}


@dataclass(frozen=True)
class Chosen:
    """A preset and the resolved options."""

    preset: Preset
    options: Mapping[str, Value]  # by our names, `partitioner` among them

    @property
    def partitioner(self) -> str:
        return str(self.options["partitioner"])


@dataclass(frozen=True)
class Producing:
    """A contract's settings for producers of its topic: a preset, and options in place of the preset's."""

    preset: str = DEFAULT
    options: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def chosen(
        self,
        preset: str | None = None,
        environment: Mapping[str, str] = NOTHING_SET,
        given: Mapping[str, Value] = NO_OPTIONS,
    ) -> Chosen:
        """Return the options of a producer of the contract's topic; `preset` replaces the contract's."""
        contract = {"partitioner": OF_TOPICS_THAT_EXIST, **self.options}
        return choose(preset or self.preset, contract, environment, given)


def preset_named(name: object) -> Preset:
    """Return the preset. Raises BadInput if there is none of that name."""
    if (found := PRESETS.get(str(name))) is not None:
        return found
    close = get_close_matches(str(name), PRESETS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"the presets are {', '.join(PRESETS)}"
    raise BadInput(f"there is no preset {name!r}; {hint}", field=str(name))


def choose(
    preset: str,
    contract: Mapping[str, Value] = NO_OPTIONS,
    environment: Mapping[str, str] = NOTHING_SET,
    given: Mapping[str, Value] = NO_OPTIONS,
) -> Chosen:
    """Return the options of a producer. `environment`: those of TIDEGATE_KAFKA_*, except any that a promise depends on.

    Raises BadInput, whose field is the option, if they contradict each other.
    """
    found = preset_named(preset)
    tuned = [(name, text) for name, text in environment.items() if own_name(name) in {*OPTIONS} - {*PROMISED}]
    options = {**found.options, **contract, **dict(read_option(name, text) for name, text in tuned), **given}
    if (wrong := refusal(found, options)) is not None:
        option, sentence = wrong
        raise BadInput(f"{sentence} (preset {found.name})", field=option)
    return Chosen(found, options)


def refusal(preset: Preset, options: Mapping[str, Value]) -> tuple[str, str] | None:
    """Return the option that the preset cannot be used with, and the reason; None if there is none."""
    transactional = preset.waits == "commit"
    if "transactional.id" in options and not transactional:
        return "transactional.id", "transactional.id requires the preset transactional, which opens transactions"
    return next(contradictions({"transactional.id": "any", **options} if transactional else options), None)


def contradictions(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the option at fault and the sentence for each pair of options, by our names, that exclude each other: in
    librdkafka's own words and in its order of checks.

    The rules of `rd_kafka_conf_finalize` and `rd_kafka_topic_conf_finalize`, for the options in OPTIONS: a contract is
    refused when it is read, at its line, without a client.
    tests/unit/producer_options/test_producing_contradictions.py compares them with the library.
    """
    values: dict[str, Any] = {name: option.default for name, option in OPTIONS.items()} | dict(given)
    transactional = bool(given.get("transactional.id"))
    idempotent = transactional or bool(given.get("enable.idempotence"))
    # Of transactions
    if transactional and given.get("enable.idempotence") is False:
        yield "enable.idempotence", "`transactional.id` requires `enable.idempotence=true`"
    if transactional and given.get("socket.timeout.ms", 0) > values["transaction.timeout.ms"] + 100:
        yield "socket.timeout.ms", "`socket.timeout.ms` must be set <= `transaction.timeout.ms` + 100"
    # Of the client
    when = "when `enable.idempotence` is true"
    if not idempotent and given.get("enable.gapless.guarantee"):
        needed = "`enable.gapless.guarantee` requires `enable.idempotence` to be enabled"
        yield "enable.gapless.guarantee", needed
    if idempotent and given.get("max.in.flight", 5) > 5:
        yield "max.in.flight", f"`max.in.flight` must be set <= 5 {when}"
    if idempotent and given.get("retries", 1) < 1:
        yield "retries", f"`retries` must be set >= 1 {when}"
    if idempotent and given.get(name := "queue.buffering.backpressure.threshold", 1) > 1:
        yield name, f"`{name}` must be set to 1 {when}"
    # Of the topic
    linger = given.get("linger.ms", -1)
    if 0 < values["message.timeout.ms"] <= linger:
        yield "linger.ms", "`message.timeout.ms` must be greater than `linger.ms`"
    if idempotent and given.get("acks", "all") != "all":
        yield "acks", f"`acks` must be set to `all` {when}"
    if idempotent and given.get("queuing.strategy") == "lifo":
        yield "queuing.strategy", f"`queuing.strategy` must be set to `fifo` {when}"
    if transactional:
        timeout = given.get("message.timeout.ms", values["transaction.timeout.ms"])
        if timeout > values["transaction.timeout.ms"]:
            yield "message.timeout.ms", "`message.timeout.ms` must be set <= `transaction.timeout.ms`"
        if 0 < timeout <= linger:
            yield "linger.ms", "`message.timeout.ms` must be greater than `linger.ms`"


def unused(environment: Iterable[str]) -> list[str]:
    """Return the options of TIDEGATE_KAFKA_* that are ignored, since they would change a preset's promise."""
    return sorted(name for name in environment if own_name(name) in PROMISED)
