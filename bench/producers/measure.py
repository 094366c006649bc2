"""Rounds of presets under faults: a topic, a stream, the fault in its middle, and the log read back."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from bench.producers.faults import Fault
from bench.producers.journal_check import Round, compare_with_log
from bench.producers.measured import Measured, summed_up
from bench.producers.recipes import FLOWING, Field
from bench.producers.sending import Pace, Stream
from bench.producers.three_brokers import NUMBERS, ThreeBrokers
from bench.producers.topic import Topic, alive, wait_until
from bench.producers.zombie import HALF, ZOMBIE, Zombie
from platform_defs.errors import BadInput, BrokerAway
from platform_defs.producer_options.presets import Preset
from platform_defs.settings.home import private_home
from platform_defs.stack.kafka_servers import MEASURE_FOLDER
from platform_defs.stack.processes import ServerFailed

RATE = 2_000  # messages a second during a fault; unlimited without one
ONE_BY_ONE = 50  # a producer that waits for each sends 1/50: it takes a round trip a message
DOWN = NUMBERS[-1]  # for faults with one broker down in all rounds
BREAKS = (KafkaException, SystemError, BrokerAway, ServerFailed, TimeoutError)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Broken:
    """A pair that could not be measured, and why: one of its rounds ended with an error."""

    preset: str
    fault: str
    error: str


def measure(
    home: Path, wanted: Sequence[tuple[Fault, Sequence[Preset]]], rounds: int, messages: int, show: Progress
) -> Generator[Measured | Broken]:
    """Measure each pair, in rounds that take turns, so that a slow minute of the machine affects every preset.

    Yields each pair after its last round, or when one breaks; the others continue. `messages` are sent in a round
    without a fault. Raises BadInput if another measurement is running, or the brokers cannot be started.
    """
    with three_brokers(home, show) as brokers:
        laboratory = Laboratory(brokers, messages)
        for fault, presets in wanted:
            yield from laboratory.measure(fault, presets, rounds, show)


@contextmanager
def three_brokers(home: Path, show: Progress) -> Generator[ThreeBrokers]:
    """Run three brokers of its own, whose data is deleted at the end. Raises BadInput if another measurement is
    running, or they cannot be started.
    """
    from filelock import FileLock, Timeout

    private_home(home)
    try:
        with FileLock(home / f"{MEASURE_FOLDER}.lock", timeout=0):
            show("starting three brokers")
            with ThreeBrokers(home / MEASURE_FOLDER, show) as brokers:
                yield brokers
    except Timeout as error:
        message = f"another `python -m bench.producers` is running over {home}; wait for it, or set TIDEGATE_HOME"
        raise BadInput(message) from error


@dataclass
class Laboratory:
    """Three brokers, and the number of messages in a round without a fault."""

    brokers: ThreeBrokers
    messages: int

    def __post_init__(self) -> None:
        self._turns = count()

    def measure(
        self, fault: Fault, presets: Sequence[Preset], rounds: int, show: Progress
    ) -> Generator[Measured | Broken]:
        """Yield the results of all rounds of this fault."""
        found: dict[str, list[Round]] = {preset.name: [] for preset in presets}
        with self._one_down(fault):
            for number, preset in product(range(1, rounds + 1), presets):
                if preset.name not in found:
                    continue
                show(f"{fault.name}, {preset.name}: round {number} of {rounds}")
                try:
                    found[preset.name].append(self._round(fault, preset))
                except BREAKS as error:
                    if interrupted(error):
                        raise KeyboardInterrupt from error
                    del found[preset.name]
                    yield Broken(preset.name, fault.name, reason_of(error))
                    continue
                if number == rounds:
                    yield summed_up(preset.name, fault.name, found[preset.name])

    @contextmanager
    def _one_down(self, fault: Fault) -> Generator[None]:
        if not fault.one_down:
            yield
            return
        self.brokers.kill(DOWN)
        wait_until(lambda: DOWN not in alive(self.brokers.addresses), f"broker {DOWN} is reported dead")
        yield
        self.brokers.start(DOWN)

    def _round(self, fault: Fault, preset: Preset) -> Round:
        turn = next(self._turns)
        down = (DOWN,) if fault.one_down else ()
        up = [number for number in NUMBERS if number not in down]
        replicas = [*up[turn % len(up) :], *up[: turn % len(up)], *down][: fault.replicas]
        config = {"min.insync.replicas": str(fault.in_sync)}
        topic = Topic(self.brokers.addresses, f"measure-{turn}", replicas, config, down)
        options = self._options(fault, preset, turn)
        with ExitStack() as afterwards:
            afterwards.callback(topic.delete)
            zombie = None
            if fault.transactions:
                zombie = Zombie({**preset.options, **options}, topic.name)
                afterwards.callback(zombie.end)
            return self._streamed(fault, topic, Stream(options, preset, topic.name, self._pace(fault, preset)), zombie)

    def _streamed(self, fault: Fault, topic: Topic, stream: Stream, zombie: Zombie | None) -> Round:
        field = Field(self.brokers, topic, stream, zombie)
        stream.start()
        try:
            field.wait_for(FLOWING)
            fired = fault.recipe(field)
            field.wait_for(FLOWING if fault.name != "none" else 0)
        except BREAKS:
            # Start and wake what the fault left dead or frozen, before waiting for the messages sent.
            self.brokers.start(*(number for number in NUMBERS if not (fault.one_down and number == DOWN)))
            stream.end()
            raise
        except BaseException:
            stream.leave()
            raise
        found = compare_with_log(stream.end(), topic.numbers(), fired=fired)
        return found if zombie is None else _with_zombie(found, topic)

    def _pace(self, fault: Fault, preset: Preset) -> Pace:
        """Return the pace: unlimited without a fault, else RATE for as long as the fault takes."""
        if fault.name != "none":
            return Pace(0, RATE)
        return Pace(self.messages // ONE_BY_ONE if preset.waits == "each" else self.messages)

    def _options(self, fault: Fault, preset: Preset, turn: int) -> dict[str, Any]:
        servers = self.brokers.proxied if fault.proxied else self.brokers.addresses
        options: dict[str, Any] = {"bootstrap.servers": servers, **fault.options}
        return options | ({"transactional.id": f"measure-{turn}"} if preset.waits == "commit" else {})


def interrupted(error: BaseException | None) -> bool:
    """Return True if the error came up during an interrupt: in the clean-up, or as the client's SystemError in its
    place.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def reason_of(error: Exception) -> str:
    """Return the client's or our own sentence."""
    if isinstance(error, TimeoutError):  # from a request about topics
        return "the brokers did not answer in time"
    return error.args[0].str() if isinstance(error, KafkaException) else str(error)


def _with_zombie(successors: Round, topic: Topic) -> Round:
    """Return the round of both producers: messages of the frozen one have failed, and must not be readable."""
    written = len(topic.numbers(committed=False, producer=ZOMBIE))
    return replace(
        successors,
        fired=successors.fired and written >= HALF,
        sent=successors.sent + written,
        failed=successors.failed + written,
        ghosts=successors.ghosts + len(topic.numbers(producer=ZOMBIE)),
    )
