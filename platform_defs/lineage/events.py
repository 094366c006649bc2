"""OpenLineage: an event for each batch, stored with it in the ledger's outbox and sent from there, in order.

The destination is OPENLINEAGE_URL or openlineage.yml, as the OpenLineage client reads them; without either, a file of
JSON lines in TIDEGATE_HOME. At least once: a receiver recognizes repeats by the run id, which is derived from the batch
id.

Events wait for a receiver that is unavailable. A refused event delays its own pipeline's next events for a few tries.
"""

import json
import logging
import os
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from filelock import FileLock
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import data_quality_assertions_dataset, output_statistics_output_dataset
from openlineage.client.serde import Serde
from openlineage.client.transport.file import FileConfig, FileTransport

from platform_defs.contract.model.contract import CheckResult, Contract
from platform_defs.engine.interfaces.staged import Staged
from platform_defs.ledger.answers import LineageEvent
from platform_defs.ledger.migrations import reading
from platform_defs.postgres.connection import Connection, connect, dict_rows, queries
from platform_defs.settings.home import private_home

PAGE = 100  # events sent per query of the outbox
LONGEST = 10.0  # seconds for which a turn sends events: a slow receiver keeps no pipeline waiting
FIRST_PAUSE, MAX_PAUSE = 5.0, 300.0  # seconds between attempts while a receiver is unavailable
TRIES = 5  # refusals after which an event is discarded
PAUSE = 5.0  # seconds after the first refusal; doubles each time
MAX_FILE = 64_000_000  # bytes, after which a new file of events begins
# Statuses by which a receiver refuses the event itself. Of the others, 401, 403 and 404 mean a wrong setup, and 408,
# 425 and 429 a busy receiver: they discard no event.
REFUSALS = frozenset({400, 406, 409, 410, 411, 413, 414, 415, 416, 417, 422, 431})
PRODUCER = "https://pypi.org/project/tidegate"
logging.getLogger("openlineage.client").setLevel(logging.INFO)  # below, it logs the address with the password in it
_LOGIN = re.compile(r"(?<=://)[^/\s]*@")  # the login in an address: a client's error quotes all of it
_PARAMETERS = re.compile(r"\?\S+?=\S*")


class OpenLineageEvents:
    """Makes events (LineageEvents). `kafka` and `postgres` name the datasets' systems: host:port."""

    def __init__(self, kafka: str, postgres: str) -> None:
        self.kafka, self.postgres = f"kafka://{kafka.split(',')[0]}", f"postgres://{postgres}"

    def of_batch(self, contract: Contract, staged: Staged, checks: Sequence[CheckResult]) -> Mapping[str, Any]:
        """Return a batch's COMPLETE event: the topic with its assertions, and the tables with the rows written."""
        batch_id, quality = staged.pending.batch_id, data_quality_assertions_dataset
        assertions = [quality.Assertion(assertion=item.name, success=item.passed) for item in checks]
        written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=staged.rows)
        facets: dict[str, Any] = {contract.row_table.name: {"outputStatistics": written}}
        event = RunEvent(
            eventType=RunState.COMPLETE,
            eventTime=datetime.now(UTC).isoformat(),
            run=Run(runId=str(run_id(contract.pipeline, batch_id))),
            job=Job(namespace="tidegate", name=contract.pipeline),
            producer=PRODUCER,
            inputs=[
                InputDataset(
                    self.kafka,
                    contract.topic,
                    inputFacets={"dataQualityAssertions": quality.DataQualityAssertionsDatasetFacet(assertions)},
                )
            ],
            outputs=[
                OutputDataset(self.postgres, table.name, outputFacets=facets.get(table.name, {}))
                for table in contract.tables
            ],
        )
        return json.loads(Serde.to_json(event))


def run_id(pipeline: str, batch_id: int) -> UUID:
    """Return the OpenLineage run id of a batch: always the same one."""
    return uuid5(NAMESPACE_URL, f"tidegate/{pipeline}/{batch_id}")


@dataclass
class Receiver:
    """The receiver's recent failures, shared in this process: two hundred pipelines do not each wait for its answer."""

    clock: Callable[[], float] = time.monotonic
    failures: int = 0  # in a row
    asked_again: float = field(default=0.0)  # the time of the next attempt

    @property
    def away(self) -> bool:
        return self.failures > 0 and self.clock() < self.asked_again

    def failed(self) -> float:
        """Record that it did not answer. Return the seconds until the next attempt."""
        pause = min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(self.failures, 10))
        self.failures, self.asked_again = self.failures + 1, self.clock() + pause
        return pause


RECEIVER = Receiver()


@dataclass(frozen=True)
class LineageOutbox:
    """The unsent events of one pipeline, in a session that has the pipeline's turn to send."""

    connection: Connection
    pipeline: str

    def waiting(self, most: int) -> list[LineageEvent]:
        """Return the next events, at most `most`; none while the first one waits for its next try."""
        rows = dict_rows(self.connection, "waiting_lineage", {"pipeline": self.pipeline, "most": most})
        return [LineageEvent(**row) for row in rows]

    def sent(self, sequence: int) -> None:
        """Delete the event, which was sent."""
        self.connection.execute(queries()["lineage_sent"], {"sequence": sequence})

    def put_off(self, sequence: int, problem: str, seconds: float) -> None:
        """Delay the event and those after it for `seconds`: the receiver was unavailable."""
        given = {"sequence": sequence, "problem": problem, "seconds": seconds}
        self.connection.execute(queries()["lineage_put_off"], given)

    def refused(self, sequence: int, problem: str) -> bool:
        """Record that the receiver refused the event. Return True if it is discarded."""
        given = {"sequence": sequence, "problem": problem, "seconds": PAUSE, "most": TRIES}
        return self.connection.execute(queries()["lineage_refused"], given).fetchone() == (True,)


@contextmanager
def outbox(url: str, pipeline: str) -> Generator[LineageOutbox | None]:
    """Yield the pipeline's outbox, for this session alone; None if another session has it. What the block recorded is
    committed at its end, however it ends, or is lost with the session: then events are sent again.

    The lock belongs to a transaction, so it works behind a pooler too.
    """
    with reading(connect(url, "tidegate lineage")) as connection, connection.transaction():
        ours = connection.execute(queries()["lineage_turn"], {"pipeline": pipeline}).fetchone() == (True,)
        yield LineageOutbox(connection, pipeline) if ours else None


@dataclass(frozen=True)
class Emitted:
    """The number of events sent, and the problem with the rest."""

    sent: int = 0
    problem: str | None = None  # why events still wait, or what was discarded


def emit_waiting(url: str, pipeline: str, home: Path, receiver: Receiver = RECEIVER) -> Emitted:
    """Send the pipeline's events from the outbox in the ledger at `url`, in order, up to the first that cannot be sent,
    or for LONGEST seconds. Sends nothing while another run is sending them. Raises LedgerAway.
    """
    if receiver.away:
        return Emitted()
    until, client, sent = receiver.clock() + LONGEST, None, 0
    while receiver.clock() < until:
        with outbox(url, pipeline) as waiting:
            events = waiting.waiting(PAGE) if waiting else []
            if waiting is None or not events:
                break
            if client is None:
                named = os.environ.get("OPENLINEAGE_URL") or os.environ.get("OPENLINEAGE_CONFIG")
                configured = named or Path("openlineage.yml").exists()
                client = OpenLineageClient() if configured else OpenLineageClient(transport=lineage_file(home))
            done, problem = _send(client, waiting, events, receiver, until)
        sent += done
        if problem or done < PAGE:
            return Emitted(sent, problem)
    return Emitted(sent)


def _send(
    client: OpenLineageClient, waiting: LineageOutbox, events: Sequence[LineageEvent], receiver: Receiver, until: float
) -> tuple[int, str | None]:
    """Return the number of events sent, and the reason why the next one was not."""
    for count, item in enumerate(events):
        if receiver.clock() >= until:
            return count, None
        try:
            client.transport.emit(_Stored(item.event))  # pyright: ignore[reportArgumentType]  # see _Stored
        except Exception as error:  # noqa: BLE001  # of whichever transport is configured
            # Without the user, password and parameters of an address: the ledger keeps it.
            message = _PARAMETERS.sub("?***", _LOGIN.sub("***@", str(error)))[:1000]
            if getattr(getattr(error, "response", None), "status_code", None) not in REFUSALS:
                pause = receiver.failed()
                waiting.put_off(item.sequence, message, pause)
                return count, f"lineage events will be sent again in {pause:.0f} s: {message}"
            receiver.failures = 0
            permanently = " permanently" if waiting.refused(item.sequence, message) else ""
            return count, f"lineage event {item.sequence} of {waiting.pipeline} was refused{permanently}: {message}"
        receiver.failures = 0
        waiting.sent(item.sequence)
    return len(events), None


class _Stored(dict[str, Any]):
    """An event as stored: the transports serialize mappings as they are."""


def lineage_file(home: Path, longest: int = MAX_FILE) -> FileTransport:
    """Return a transport that appends to lineage.jsonl in `home`. A file that exceeds `longest` bytes replaces
    lineage.jsonl.1: with several batches a second, one file would grow by gigabytes a week.
    """
    private_home(home)
    file = home / "lineage.jsonl"
    if _size(file) > longest:
        with FileLock(home / "lineage.lock"):  # without it, the second of two runs would replace the file just kept
            if _size(file) > longest:
                file.replace(home / "lineage.jsonl.1")
    return FileTransport(FileConfig(log_file_path=str(file), append=True))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
