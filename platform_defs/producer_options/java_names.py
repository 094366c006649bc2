"""Options of Java's producer, with librdkafka's names and units.

From Kafka 4.3 (https://kafka.apache.org/43/configuration/producer-configs/) and librdkafka 2.16
(https://github.com/confluentinc/librdkafka/blob/v2.16.0/CONFIGURATION.md). The reference (docs/reference/producers.md)
is generated from this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from platform_defs.producer_options.options import OPTIONS, own_name


@dataclass(frozen=True)
class JavaOption:
    """An option of Java's producer. `name` is librdkafka's; empty if it has none. `factor`: Java's `unit`s in one of
    librdkafka's (`here`); 0 if the value is no number.
    """

    java: str
    name: str = ""
    unit: str = ""
    here: str = ""
    factor: int = 0
    note: str = ""

    @property
    def is_setting(self) -> bool:
        """True if it is set by a variable, since it does not control how messages are produced."""
        return bool(self.name) and own_name(self.name) not in OPTIONS

    @property
    def variable(self) -> str:
        """The variable that sets it."""
        return f"TIDEGATE_KAFKA_{self.name.upper().replace('.', '_')}"


def _same(java: str, unit: str = "", note: str = "") -> JavaOption:
    return JavaOption(java, java, unit, unit, 1 if unit else 0, note)


_TLS = "a PEM file of certificates, not a Java key store"
_EVERY = (
    _same("acks", note="`all` is also written -1"),
    _same("batch.size", "bytes", "Java's default is 16384, librdkafka's 1000000; see also batch.num.messages"),
    _same("bootstrap.servers"),
    JavaOption(
        "buffer.memory", "queue.buffering.max.kbytes", "bytes", "KiB", 1024, "see also queue.buffering.max.messages"
    ),
    _same("client.dns.lookup"),
    _same("client.id"),
    JavaOption("compression.gzip.level", "compression.level"),
    JavaOption("compression.lz4.level", "compression.level"),
    _same("compression.type"),
    JavaOption("compression.zstd.level", "compression.level"),
    JavaOption("config.providers", note="secrets come from variables and files"),
    _same("connections.max.idle.ms", "ms"),
    JavaOption("delivery.timeout.ms", "message.timeout.ms", "ms", "ms", 1, "librdkafka takes both names"),
    _same("enable.idempotence", note="Java's default is true, librdkafka's false; a preset decides"),
    _same("enable.metrics.push"),
    JavaOption("interceptor.classes", note="librdkafka's interceptors are written in C"),
    JavaOption("key.serializer", note="keys are bytes; tidegate send encodes them as the contract says"),
    _same("linger.ms", "ms"),
    JavaOption("max.block.ms", note="Tidegate's Producer waits for a full queue: `patience`, in seconds"),
    JavaOption("max.in.flight.requests.per.connection", "max.in.flight", note="librdkafka takes both names"),
    JavaOption("max.request.size", "message.max.bytes", "bytes", "bytes", 1),
    _same("metadata.max.age.ms", "ms"),
    JavaOption("metadata.max.idle.ms", note="librdkafka keeps the metadata of each topic that it writes to"),
    _same("metadata.recovery.rebootstrap.trigger.ms", "ms"),
    _same("metadata.recovery.strategy"),
    JavaOption(
        "metric.reporters", "statistics.interval.ms", note="librdkafka passes its statistics as JSON to a callback"
    ),
    JavaOption("metrics.num.samples", note="librdkafka's statistics each cover one window"),
    JavaOption("metrics.recording.level", note="librdkafka's statistics have one level"),
    JavaOption("metrics.sample.window.ms", "statistics.interval.ms", "ms", "ms", 1, "the window of the statistics"),
    JavaOption("partitioner.adaptive.partitioning.enable", note="librdkafka does not consider how busy a broker is"),
    JavaOption("partitioner.availability.timeout.ms", note="as above"),
    JavaOption("partitioner.class", "partitioner", note="a name, such as `keyed`, which is Java's default partitioner"),
    JavaOption("partitioner.ignore.keys", "partitioner", note="true is `sticky` here"),
    JavaOption("receive.buffer.bytes", "socket.receive.buffer.bytes", "bytes", "bytes", 1),
    _same("reconnect.backoff.max.ms", "ms"),
    _same("reconnect.backoff.ms", "ms"),
    _same(
        "request.timeout.ms",
        "ms",
        "how long brokers wait for replicas; Java's request.timeout.ms is socket.timeout.ms here",
    ),
    _same("retries"),
    _same("retry.backoff.max.ms", "ms"),
    _same("retry.backoff.ms", "ms"),
    JavaOption("sasl.jaas.config", "sasl.username", note="and sasl.password, or a token (docs/how-to/own-servers.md)"),
    _same("sasl.mechanism"),
    _same("security.protocol"),
    JavaOption("send.buffer.bytes", "socket.send.buffer.bytes", "bytes", "bytes", 1),
    JavaOption("socket.connection.setup.timeout.max.ms", note="librdkafka does not raise the timeout"),
    _same("socket.connection.setup.timeout.ms", "ms"),
    JavaOption("ssl.keystore.location", "ssl.certificate.location", note=f"{_TLS}; the key is ssl.key.location"),
    JavaOption("ssl.truststore.location", "ssl.ca.location", note=_TLS),
    _same("transaction.timeout.ms", "ms"),
    _same("transactional.id"),
    JavaOption("value.serializer", note="values are bytes; tidegate send encodes them as the contract says"),
)
JAVA: Mapping[str, JavaOption] = {option.java: option for option in _EVERY}


def java_answer(name: str, value: object) -> str | None:
    """Return a sentence about an option with Java's name that librdkafka does not have; None for any other."""
    found = JAVA.get(name)
    if found is None or own_name(name) in OPTIONS:
        return None
    note = f" ({found.note})" if found.note else ""
    if not found.name:
        return f"{name} is an option of the Java producer, and librdkafka has no equivalent{note}"
    if found.is_setting:
        here = "" if found.name == name else f" ({found.name} in librdkafka)"
        kind = "is a connection setting, not a producer option"
        return f"{name}{here} {kind}: set {found.variable}{note}"
    unit = f", in {found.here} instead of Java's {found.unit}" if found.unit != found.here else ""
    return f"{name} is Java's name; librdkafka's is {found.name}{unit}{_converted(found, value)}{note}"


def _converted(option: JavaOption, value: object) -> str:
    """Return the option to write, with the value in librdkafka's unit; empty if the value is not a number."""
    text = str(value)
    if not option.factor or not text.isdecimal():
        return ""
    return f": {option.name}={-(-int(text) // option.factor)}"
