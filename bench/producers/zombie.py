"""A transactional producer in a process of its own, frozen inside a transaction while its successor takes over."""

import ctypes
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import KafkaException, Producer

from bench.producers.sending import HEAD
from platform_defs.errors import BrokerAway

HALF = 500  # messages before it is frozen, and as many after
ZOMBIE = 2  # the number of this producer in its messages; a stream is 1
FENCED = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
ANSWER = 60.0  # seconds
_PR_SET_PDEATHSIG = 1


class Zombie:
    """The process, frozen inside its transaction from construction on. Raises BrokerAway."""

    def __init__(self, options: Mapping[str, Any], topic: str) -> None:
        spawn = multiprocessing.get_context("spawn")  # librdkafka does not survive a fork
        self._here, there = spawn.Pipe()
        self._process = spawn.Process(target=_half, args=(there, dict(options), topic, os.getpid()), daemon=True)
        self._process.start()
        self._hear()
        self._signal(signal.SIGSTOP)

    def wake(self) -> bool:
        """Let it continue and try to commit. Return True if it was fenced."""
        self._signal(signal.SIGCONT)
        self._here.send("go on")
        return self._hear() in FENCED

    def end(self) -> None:
        """End the process, frozen or not."""
        self._process.kill()
        self._process.join()

    def _signal(self, number: int) -> None:
        os.kill(self._process.pid or 0, number)

    def _hear(self) -> str:
        if not self._here.poll(ANSWER):
            raise BrokerAway(f"the producer to be fenced did not report for {ANSWER:.0f} s")
        return self._here.recv()


def _half(there: Connection, options: dict[str, Any], topic: str, parent: int) -> None:
    """Run the process: half a transaction, and after a message from `there` the other half."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a frozen process without a parent would never be woken
    if os.getppid() != parent:
        return
    logger = logging.getLogger("tidegate.zombie")  # silent: being fenced is expected, and librdkafka prints it as fatal
    logger.propagate, logger.disabled = False, True
    producer = Producer(options, logger=logger)
    producer.init_transactions(ANSWER)
    producer.begin_transaction()
    _send(producer, topic, range(HALF))
    there.send("open")
    there.recv()
    try:
        _send(producer, topic, range(HALF, 2 * HALF))
        producer.commit_transaction(ANSWER)
        there.send("committed")
    except KafkaException as error:
        there.send(error.args[0].name())


def _send(producer: Producer, topic: str, numbers: range) -> None:
    for number in numbers:
        producer.produce(topic, HEAD.pack(ZOMBIE, number, time.monotonic_ns()))
    producer.flush(ANSWER)
