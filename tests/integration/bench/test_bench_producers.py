"""`python -m bench.producers`, with brokers that it starts itself: real faults, and nothing left running."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from bench.producers import page
from bench.producers.faults import FAULTS, Fault
from bench.producers.measure import Broken, measure
from bench.producers.measured import Measured
from bench.producers.recipes import Field
from bench.producers.sweeping import sweep
from bench.producers.sweeps import Swept, settings_of
from platform_defs.errors import BrokerAway
from platform_defs.producer_options.presets import PRESETS, Preset
from platform_defs.stack import kafka_servers as kafka
from platform_defs.stack import stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MEASURE = [sys.executable, "-m", "bench.producers"]
MANY = ["--preset", "leader", "--fault", "cut_answers", "--rounds", "1000"]
Found = Mapping[tuple[str, str], Measured | Broken]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a separate home; nothing runs in it afterwards."""
    for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    yield tmp_path
    stack.down()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return one measurement's result for each pair: four faults, after one that cannot be caused."""
    wanted = [
        (Fault(in_vain), presets("leader")),
        (FAULTS["leader_loss"], presets("leader", "asynchronous")),
        (FAULTS["cut_answers"], presets("at_least_once", "asynchronous")),
        (FAULTS["zombie"], presets("transactional")),
        (FAULTS["isr_flap"], presets("asynchronous")),
        *[(FAULTS["isr_flap"], presets("one_in_flight"))] * 10,  # until a change of order is seen
    ]
    home, every = tmp_path_factory.mktemp("measured"), dict[tuple[str, str], Measured | Broken]()
    with closing(measure(home, wanted, 1, 1_000, print)) as measured:
        for one in measured:
            every[one.fault, one.preset] = one
            if one.preset == "one_in_flight" and isinstance(one, Measured) and one.reordered:
                break
    assert not (home / kafka.MEASURE_FOLDER).exists()
    assert running(home) == []
    return every


def in_vain(field: Field) -> bool:
    """A broker is killed, another one is frozen, and the expected outcome never comes."""
    leader = field.topic.leader
    field.brokers.kill(leader)
    field.brokers.freeze(leader % 3 + 1)
    raise BrokerAway("it did not come true")


def interrupted(field: Field) -> bool:
    """Raise KeyboardInterrupt after deleting the topic, so that the clean-up fails."""
    field.topic.delete()
    raise KeyboardInterrupt


def presets(*names: str) -> Sequence[Preset]:
    return [PRESETS[name] for name in names]


def of(found: Found, fault: str, preset: str) -> Measured:
    one = found[fault, preset]
    assert isinstance(one, Measured), one
    assert one.fired == one.rounds, one
    return one


def running(home: Path) -> list[int]:
    return [process.pid for process in kafka.running(home / kafka.MEASURE_FOLDER)]


@pytest.mark.longest
def test_a_pair_that_breaks_is_said_and_the_others_are_measured(found: Found) -> None:
    assert found["in_vain", "leader"] == Broken("leader", "in_vain", "it did not come true")
    assert len(found) == 8
    assert [one for one in found.values() if isinstance(one, Broken)] == [found["in_vain", "leader"]]


@pytest.mark.longest
def test_what_the_leader_alone_acknowledged_is_lost_with_it(found: Found) -> None:
    leader, every = of(found, "leader_loss", "leader"), of(found, "leader_loss", "asynchronous")
    assert (leader.lost > 0, leader.failed) == (True, 0)
    assert (every.lost, every.doubled) == (0, 0)


@pytest.mark.longest
def test_a_retry_after_a_cut_answer_doubles_unless_the_producer_is_idempotent(found: Found) -> None:
    assert of(found, "cut_answers", "at_least_once").doubled > 0
    every = of(found, "cut_answers", "asynchronous")
    assert (every.doubled, every.lost) == (0, 0)


@pytest.mark.longest
def test_one_request_in_flight_does_not_keep_the_order(found: Found) -> None:
    assert of(found, "isr_flap", "one_in_flight").reordered > 0
    assert of(found, "isr_flap", "asynchronous").reordered == 0


@pytest.mark.longest
def test_half_a_transaction_of_a_fenced_producer_is_not_read(found: Found) -> None:
    zombie = of(found, "zombie", "transactional")
    assert (zombie.failed > 0, zombie.ghosts, zombie.lost) == (True, 0, 0)


@pytest.mark.longest
def test_the_command_answers_and_writes_the_page(home: Path) -> None:
    """With a fault that an idempotent producer does not survive: the measurement goes on with a new one."""
    for path, text in ((page.PAGE, f"Before.\n{page.BEGIN}\n{page.END}\nAfter.\n"), (page.PICTURE, "")):
        (home / path).parent.mkdir(parents=True)
        (home / path).write_text(text)
    arguments = ["--fault", "unclean", "--preset", "asynchronous", "--docs", str(home)]
    done = subprocess.run([*MEASURE, *arguments, "-o", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = page.rows((home / page.PAGE).read_text())
    assert [row] == [Measured(**one) for one in json.loads(done.stdout)]
    assert (row.lost > 0, row.sent) == (True, row.delivered + row.failed)
    assert running(home) == []


@pytest.mark.longest
def test_a_sweep_counts_batches_and_bytes_of_each_value(home: Path) -> None:
    with closing(sweep(home, settings_of(["acks", "compression"])[:10], 1, 1_000, print)) as swept:
        found = {(one.vary, one.value, one.load): one for one in swept if isinstance(one, Swept)}
    assert len(found) == 10
    assert all(one.messages_per_second and one.p99_ms and one.batch_messages >= 1 for one in found.values())
    plain, small = found["compression", "none", "full"], found["compression", "gzip", "full"]
    assert plain.compression_ratio < 1 < small.compression_ratio
    assert small.wire_bytes < plain.wire_bytes
    assert running(home) == []


@pytest.mark.longest
def test_what_a_killed_measurement_leaves_running_is_stopped_with_the_stack(home: Path) -> None:
    with subprocess.Popen([*MEASURE, *MANY], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "round 2" in line)
        process.kill()
    assert len(running(home)) == 3
    stack.down()
    assert running(home) == []
    assert not (home / kafka.MEASURE_FOLDER).exists()


@pytest.mark.longest
def test_an_interrupted_measurement_leaves_nothing_running(home: Path) -> None:
    listens = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # even if its parent ignores it
    run = "import runpy; runpy.run_module('bench.producers', run_name='__main__')"
    command = [sys.executable, "-c", f"{listens}; {run}", *MANY]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "round 2" in line)
        process.send_signal(signal.SIGINT)
        message = process.stderr.read()
        assert process.wait(60) == 130, message
    assert running(home) == []


@pytest.mark.longest
def test_an_interrupt_is_not_taken_for_a_pair_that_breaks(home: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(measure(home, [(Fault(interrupted), presets("leader"))], 1, 1_000, print))
    assert running(home) == []
