"""The checks of `tidegate send` before the first message: the topic, the partition, the values."""

from dataclasses import dataclass, field
from typing import Any

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.reader.catalogue import Contracts
from platform_defs.errors import BadInput, TopicMissing
from platform_defs.errors.words import plural
from platform_defs.messages.lines import Lines
from platform_defs.messages.outgoing import Checked, Headers, Refused, Unchecked
from platform_defs.messages.send import Sending, portions
from platform_defs.producer_options.config import Chosen, choose
from platform_defs.producer_options.presets import DEFAULT
from platform_defs.producers.producer import Producer
from platform_defs.producers.producer_client import existing_partitions
from platform_defs.producers.unsent.sink import UnsentSink, sink
from platform_defs.schemas.conversion.writer_schemas import message_schemas
from platform_defs.settings.settings import settings
from platform_defs.stack.endpoints import connection, kafka_alone
from platform_defs.topics.destination import find_destination, missing

SHOWN = 5  # refused values that an error names
AS_THEY_ARE = "--unchecked sends bytes as they are"
NEVER_CREATED = {"allow.auto.create.topics": False}  # librdkafka's producers create topics if brokers let them


@dataclass(frozen=True)
class Request:
    """A user's request to send. `name` is a topic or a pipeline. `null`: tombstones; `ids`: with the header
    tidegate-id.
    """

    name: str
    lines: Lines
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    preset: str | None = None
    null: bool = False
    unchecked: bool = False
    ids: bool = True


@dataclass(frozen=True)
class Prepared:
    """Everything that sending needs. `unsent`: the store of undelivered messages; None without a contract."""

    request: Request
    topic: str
    contract: Contract | None
    chosen: Chosen
    maker: Checked | Unchecked
    partitions: int
    unsent: UnsentSink | None
    options: dict[str, Any] = field(repr=False)

    @property
    def is_checked(self) -> bool:
        """True if messages are checked against the contract."""
        return isinstance(self.maker, Checked)

    def run(self, sending: Sending) -> None:
        """Send everything. See `Sending.send`."""
        name = self.topic if self.contract is None else self.contract.pipeline
        producer = Producer(
            self.options,
            self.topic,
            self.chosen,
            client_id=f"tidegate.{name}.send",
            ids=self.request.ids and self.contract is not None,
            partitions=self.partitions,
            on_delivery=sending.note,
            unsent=self.unsent,
        )
        sending.send(self.request.lines, self.maker, producer)


def prepare(request: Request, contracts: Contracts) -> Prepared:
    """Find the topic and its contract, and check every value that can be read twice.

    Raises TopicMissing; BadInput for a name that several contracts claim, a contract that cannot be read and may
    describe the topic (not if unchecked), a missing partition, and values that would be dead letters; RegistryAway,
    BrokerAway, AccessDenied.
    """
    found = find_destination(request.name, contracts)
    topic, contract = found.topic, found.contract
    if found.broken and contract is None and not request.unchecked:
        raise found.broken[0].error
    endpoints = None if contract is None else connection()
    options = {**(kafka_alone() if endpoints is None else endpoints.kafka_options()), **NEVER_CREATED}
    try:
        partitions = existing_partitions(options, topic)
    except TopicMissing:
        raise missing(request.name, contracts) if contract is None else TopicMissing.named(topic) from None
    if request.partition is not None and request.partition >= partitions:
        last = f"the last of its {plural(partitions, 'partition')} is {partitions - 1}"
        raise BadInput(f"{topic} has no partition {request.partition}; {last}. Nothing was sent", field="--partition")
    tuned, sent_with = settings().librdkafka_options, (request.key, request.headers, request.partition, request.null)
    if contract is None or endpoints is None:
        chosen, unsent = choose(request.preset or DEFAULT, environment=tuned), None
        maker = Unchecked(*sent_with)
    else:
        chosen = contract.producing.chosen(request.preset, tuned)
        unsent = sink(contract.pipeline, topic, endpoints.kafka_options(), endpoints.postgres_url)
        keyed = request.key is not None
        maker = (
            Unchecked(*sent_with)
            if request.unchecked
            else Checked(contract, message_schemas(contract, endpoints.registry, keyed=keyed), *sent_with)
        )
    if not request.lines.streamed:
        _refuse(request, maker)
    return Prepared(
        request=request,
        topic=topic,
        contract=contract,
        chosen=chosen,
        maker=maker,
        partitions=partitions,
        unsent=unsent,
        options=options,
    )


def _refuse(request: Request, maker: Checked | Unchecked) -> None:
    """Raise BadInput for values that would be dead letters."""
    made = (item for portion in portions(request.lines) for item in maker.messages(portion))
    refused, count = list[Refused](), 0
    for item in made:
        if isinstance(item, Refused):
            count += 1
            refused += [item] if count <= SHOWN else []
    if not refused:
        return
    reasons = "; ".join(f"{request.lines.noun} {item}" for item in refused)
    more = f"; and {count - len(refused):,} more" if count > len(refused) else ""
    raise BadInput(f"{reasons}{more}. Nothing was sent; {AS_THEY_ARE}", field=request.name)
