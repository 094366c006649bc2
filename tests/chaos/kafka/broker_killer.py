"""A thread that kills one of three brokers at random, one at a time, while a block runs."""

import random
import threading
from typing import Self

from tests.chaos.kafka.three_brokers import NODES, ThreeBrokers


class BrokerKiller:
    """A thread that kills a broker (SIGKILL), restarts it, waits until every topic is fully replicated, and takes the
    next.

    `killed` has the number and pid of each, in order. An error in the thread is raised at the end of the block.
    """

    def __init__(self, cluster: ThreeBrokers, seed: int) -> None:
        self.seed = seed
        self._cluster, self._random, self._over = cluster, random.Random(seed), threading.Event()
        self._thread = threading.Thread(target=self._kill_on, name="broker killer")
        self._failure: BaseException | None = None
        self.killed: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._failure is not None:
            raise self._failure

    def _kill_on(self) -> None:
        try:
            while not self._over.wait(self._random.uniform(0, 8)):
                self._kill_one()
        except BaseException as failure:  # noqa: BLE001  # raised by `check`
            self._failure = failure

    def _kill_one(self) -> None:
        victim = self._random.choice(NODES)
        pid = self._cluster.nodes[victim].pid
        self._cluster.kill([victim])
        self.killed.append((victim, pid))
        self._over.wait(self._random.uniform(0, 6))
        self._cluster.start([victim])
        self._cluster.wait_until_all_is_whole()
