"""`tidegate demo delivery`: three consumers of the same transfers, killed at the same places."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing import forkserver
from typing import Any

from platform_defs.demo import consumers as demo_consumers
from platform_defs.demo.consumers import Task
from platform_defs.demo.delivery_model import (
    BATCH,
    SEMANTICS,
    TRANSFERS,
    Crash,
    Outcome,
    Semantics,
    Transfer,
    crashes,
    transfers,
)
from platform_defs.demo.ledger import SCHEMA, DemoSchema, demo_schema
from platform_defs.demo.topic import DemoTopic, delete_or_note
from platform_defs.errors import BrokerAway, InternalError, TidegateError
from platform_defs.errors.words import plural
from platform_defs.producers.message import Message
from platform_defs.producers.producer import Producer
from platform_defs.stack.endpoints import Endpoints

TOPIC = "tidegate.demo.transfers"
GROUP = "tidegate.demo."  # and the semantics
LIMIT = 120.0  # seconds for one process, which takes one or two

Show = Callable[[str], None]

# Forks the consumers from a process that has their imports, and no Kafka client. They also run the program `tidegate`
# up to its main, which imports typer and rich.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([demo_consumers.__name__, "typer", "rich.table"])


@dataclass(frozen=True, kw_only=True)
class DeliveryDemo:
    """The demo on these servers. `keep`: leave the topic and the tables, until the next run."""

    endpoints: Endpoints = field(repr=False)
    seed: int
    show: Show
    keep: bool = False

    def run(self) -> dict[str, Any]:
        """Send the transfers, let each consumer read them, and count the results. Return the document that
        `tidegate demo delivery -o json` prints; `left`: sentences about what could not be deleted, and why.

        Raises BadInput for a topic or schema of another program, AccessDenied, BrokerAway, LedgerAway.
        """
        started, left = time.monotonic(), list[str]()
        forkserver.ensure_running()  # it imports meanwhile
        with demo_schema(self.endpoints.postgres_url) as schema:
            if (earlier := schema.earlier_topic()) is not None:  # of a run that was kept or killed
                self.show(f"deleting the topic {TOPIC} from an earlier run, whose tables are in the schema {SCHEMA}")
                self._topic.delete_topic(earlier)
            schema.make()
            try:
                with self._topic.made(self.show, left, keep=self.keep) as topic_id:
                    schema.keep_topic(topic_id)
                    self._send(transfers(self.seed))
                    outcomes = [self._consume(semantics, schema) for semantics in SEMANTICS]
            finally:
                if not self.keep:
                    delete_or_note(schema.drop, self.show, left)
        return {
            "seed": self.seed,
            "batch": BATCH,
            "crashes": [asdict(crash) for crash in crashes(self.seed)],
            "consumers": [{**asdict(one), "as_promised": one.as_promised} for one in outcomes],
            "left": left,
            "seconds": round(time.monotonic() - started, 1),
        }

    @property
    def _topic(self) -> DemoTopic:
        groups = [f"{GROUP}{semantics}" for semantics in SEMANTICS]
        return DemoTopic(options=self.endpoints.kafka_options(), name=TOPIC, partitions=1, groups=groups)

    def _send(self, wanted: Sequence[Transfer]) -> None:
        with Producer(self.endpoints.kafka_options(), TOPIC, client_id="tidegate.demo", ids=False) as producer:
            for transfer in wanted:
                producer.send(Message(transfer.to_message(), transfer.debit_account.encode(), partition=0))
                if transfer is wanted[0]:
                    producer.flush()  # its error names the right that is missing
        self.show(f"{plural(len(wanted), 'transfer')} sent to {TOPIC}")

    def _consume(self, semantics: Semantics, schema: DemoSchema) -> Outcome:
        """Restart the consumer until it has read everything."""
        started, left = time.monotonic(), list(crashes(self.seed))
        while (crash := self._run_process(semantics, left)) is not None:
            self.show(f"{name_of(semantics)}: killed at {crash}")
            left.remove(crash)
        took = time.monotonic() - started
        self.show(f"{name_of(semantics)}: at the end of the topic after {took:.1f} s")
        whole, duplicated, balances_sum = schema.counts(semantics)
        return Outcome(
            semantics=semantics,
            crashes=len(crashes(self.seed)) - len(left),
            transfers=TRANSFERS,
            lost=TRANSFERS - whole,
            duplicated=duplicated,
            balances_sum=balances_sum,
            seconds=round(took, 1),
        )

    def _run_process(self, semantics: Semantics, left: Sequence[Crash]) -> Crash | None:
        """Run the consumer in a process of its own. Return the crash that ended it; None if it has read everything."""
        task = Task(
            semantics=semantics,
            topic=TOPIC,
            group=f"{GROUP}{semantics}",
            end=TRANSFERS,
            crashes=left,
            options=self.endpoints.kafka_options(),
            postgres_url=self.endpoints.postgres_url,
        )
        receiving, sending = _PROCESSES.Pipe(duplex=False)
        process = _PROCESSES.Process(target=demo_consumers.run, args=(task, sending), daemon=True)
        process.start()
        sending.close()
        try:
            process.join(LIMIT)
            if process.exitcode is None:
                raise BrokerAway(f"a consumer did not read {TOPIC} to its end within {LIMIT:.0f} s. Is Kafka up?")
        finally:
            process.kill()
        answer: Crash | TidegateError | None = None
        with suppress(EOFError):  # it has sent nothing
            answer = receiving.recv()
        if isinstance(answer, TidegateError):
            raise answer
        if process.exitcode != (0 if answer is None else -signal.SIGKILL):
            ended = f"a consumer ended with exit code {process.exitcode}"
            raise InternalError.in_command("tidegate demo delivery", ended)
        return answer


def name_of(semantics: Semantics) -> str:
    """Return the semantics in words."""
    return semantics.replace("_", " ")
