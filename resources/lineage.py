"""OpenLineage: an event for each batch, stored with it in the ledger's outbox and sent from there, in order.

Where to: OPENLINEAGE_URL or openlineage.yml, as the OpenLineage client reads them; without either, a file of JSON
lines in TIDEGATE_HOME. At least once: a receiver recognizes repeats by the run id, which is derived from the batch id.
"""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import data_quality_assertions_dataset, output_statistics_output_dataset
from openlineage.client.serde import Serde
from openlineage.client.transport.file import FileConfig, FileTransport

from platform_defs.contract.model import CheckResult, Contract
from platform_defs.engine.ports import Staged
from resources.home import private_home
from resources.postgres.ledger import Ledger

PAGE = 100  # events that are sent before it is asked for more
PRODUCER = "https://pypi.org/project/tidegate"


class OpenLineageEvents:
    """Makes events (engine.ports.LineageEvents). `kafka` and `postgres` name the datasets' systems: host:port."""

    def __init__(self, kafka: str, postgres: str) -> None:
        self.kafka, self.postgres = f"kafka://{kafka.split(',')[0]}", f"postgres://{postgres}"

    def of_batch(self, contract: Contract, staged: Staged, checks: Sequence[CheckResult]) -> Mapping[str, Any]:
        """The COMPLETE event of a batch: the topic with its assertions, and the tables with the rows written."""
        batch_id = staged.pending.batch_id
        event = RunEvent(
            eventType=RunState.COMPLETE,
            eventTime=datetime.now(UTC).isoformat(),
            run=Run(runId=str(run_id(contract.pipeline, batch_id))),
            job=Job(namespace="tidegate", name=contract.pipeline),
            producer=PRODUCER,
            inputs=[
                InputDataset(self.kafka, contract.topic, inputFacets={"dataQualityAssertions": _assertions(checks)})
            ],
            outputs=[
                OutputDataset(self.postgres, table.name, outputFacets=_statistics(table.name, contract, staged))
                for table in contract.tables
            ],
        )
        return json.loads(Serde.to_json(event))


def run_id(pipeline: str, batch_id: int) -> UUID:
    """The OpenLineage run id of a batch: always the same one."""
    return uuid5(NAMESPACE_URL, f"tidegate/{pipeline}/{batch_id}")


def emit_waiting(ledger: Ledger, home: Path) -> int:
    """Send the events that wait in the outbox, in order; stops at the first that cannot be sent. How many were sent."""
    waiting = ledger.unsent_lineage(PAGE)
    if not waiting:
        return 0
    client = _client(home)
    for item in waiting:
        client.transport.emit(_Stored(item.event))  # pyright: ignore[reportArgumentType]  # see _Stored
        ledger.mark_sent(item.sequence)
    return len(waiting)


class _Stored(dict[str, Any]):
    """An event as it was stored: the transports serialize mappings as they are."""


def _client(home: Path) -> OpenLineageClient:
    if os.environ.get("OPENLINEAGE_URL") or os.environ.get("OPENLINEAGE_CONFIG") or Path("openlineage.yml").exists():
        return OpenLineageClient()
    private_home(home)
    return OpenLineageClient(
        transport=FileTransport(FileConfig(log_file_path=str(home / "lineage.jsonl"), append=True))
    )


def _assertions(checks: Sequence[CheckResult]) -> Any:
    kind = data_quality_assertions_dataset
    return kind.DataQualityAssertionsDatasetFacet(
        [kind.Assertion(assertion=item.name, success=item.passed) for item in checks]
    )


def _statistics(table: str, contract: Contract, staged: Staged) -> Any:
    if table != contract.row_table.name:
        return {}
    return {
        "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=staged.rows)
    }
