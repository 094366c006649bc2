"""The TIDEGATE_* variables: each given directly, or as the path of a file with its value.

Docker and Kubernetes provide secrets as files: TIDEGATE_POSTGRES_URL_FILE names the file with the value of
TIDEGATE_POSTGRES_URL. A file is read each time its variable is used, so a new run gets the current value.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from platform_defs.errors import BadInput

PREFIX = "TIDEGATE_"
KAFKA_PREFIX = PREFIX + "KAFKA_"
REGISTRY_PREFIX = PREFIX + "REGISTRY_"
FILE = "_FILE"
# Options whose own names end with it. https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
_OWN = {
    KAFKA_PREFIX + "SASL_OAUTHBEARER_ASSERTION_FILE",
    KAFKA_PREFIX + "SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE",
    KAFKA_PREFIX + "SASL_OAUTHBEARER_ASSERTION_JWT_TEMPLATE_FILE",
}
_SERVICE = "_SERVICE_HOST"
_LINK = re.compile(r"_SERVICE_HOST|_SERVICE_PORT(_[A-Z0-9_]+)?|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?")
_UNDERSCORED = ("log_level",)  # options of librdkafka that have no dot
# librdkafka's options that a text can set, for "did you mean" (tests/unit/settings/test_settings.py compares them with
# the installed library), and the one that Tidegate adds (kafka/client/tokens.py).
_LIBRDKAFKA = """
oauth.callback
acks allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
auto.commit.enable auto.commit.interval.ms auto.offset.reset batch.num.messages batch.size bootstrap.servers
broker.address.family broker.address.ttl broker.version.fallback check.crcs client.dns.lookup client.id client.rack
compression.codec compression.level compression.type connections.max.idle.ms consume.callback.max.messages
coordinator.query.interval.ms debug delivery.report.only.error delivery.timeout.ms enable.auto.commit
enable.auto.offset.store enable.gapless.guarantee enable.idempotence enable.metrics.push enable.partition.eof
enable.random.seed enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification fetch.error.backoff.ms
fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.id
group.instance.id group.protocol group.protocol.type group.remote.assignor heartbeat.interval.ms https.ca.location
https.ca.pem internal.termination.signal isolation.level linger.ms log.connection.close log.queue log.thread.name
log_level max.in.flight max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
max.poll.records message.copy.max.bytes message.max.bytes message.send.max.retries message.timeout.ms
metadata.broker.list metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
offset.store.method offset.store.path offset.store.sync.interval.ms partition.assignment.strategy
partitioner plugin.library.paths produce.offset.report queue.buffering.backpressure.threshold queue.buffering.max.kbytes
queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages queuing.strategy
receive.message.max.bytes reconnect.backoff.jitter.ms reconnect.backoff.max.ms reconnect.backoff.ms
request.required.acks request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal sasl.kerberos.service.name
sasl.mechanism sasl.mechanisms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
session.timeout.ms share.acknowledgement.mode socket.blocking.max.ms socket.connection.setup.timeout.ms
socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes
socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem ssl.certificate.location ssl.certificate.pem
ssl.cipher.suites ssl.crl.location ssl.curves.list ssl.endpoint.identification.algorithm ssl.engine.id
ssl.engine.location ssl.key.location ssl.key.password ssl.key.pem ssl.keystore.location ssl.keystore.password
ssl.providers ssl.sigalgs.list statistics.interval.ms sticky.partitioning.linger.ms topic.blacklist
topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms
topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse transaction.timeout.ms transactional.id
"""
# The options of confluent-kafka's registry client.
_CONFLUENT = """
basic.auth.user.info bearer.auth.client.id bearer.auth.client.secret bearer.auth.credentials.source
bearer.auth.custom.provider.config bearer.auth.custom.provider.function bearer.auth.identity.pool.id
bearer.auth.issuer.endpoint.query bearer.auth.issuer.endpoint.url bearer.auth.logical.cluster bearer.auth.scope
bearer.auth.token cache.capacity cache.latest.ttl.sec max.retries proxy retries.max.wait.ms retries.wait.ms
ssl.ca.location ssl.certificate.location ssl.key.location ssl.key.password timeout
"""
KAFKA_OPTIONS, REGISTRY_OPTIONS = frozenset(_LIBRDKAFKA.split()), frozenset(_CONFLUENT.split())


def names() -> list[str]:
    """Return the variables that are given, with those in files under their plain names."""
    return sorted({name if name in _OWN else name.removesuffix(FILE) for name in _given()})


def value(name: str) -> str | None:
    """Return a variable's value; an empty one counts as unset. Raises BadInput, without a file's content, if it is
    given twice or its file cannot be read.
    """
    given, path = os.environ.get(name), None if name + FILE in _OWN else os.environ.get(name + FILE)
    if not path:
        return given or None
    if given:
        raise BadInput(f"{name} is also set; unset one of the two", field=name + FILE)
    return _content(name + FILE, Path(path))


def options(prefix: str) -> dict[str, str]:
    """Return the variables with this prefix by option name: in small letters, with dots. Raises BadInput."""
    found = dict[str, str]()
    for name in names():
        if name.startswith(prefix) and (text := value(name)):
            own = name.removeprefix(prefix).lower()
            found[own if own in _UNDERSCORED else own.replace("_", ".")] = text
    return found


def client_variables() -> set[str]:
    """Return the variables that set the known options of the clients of Kafka and of the registry."""
    known = {KAFKA_PREFIX: KAFKA_OPTIONS, REGISTRY_PREFIX: REGISTRY_OPTIONS}
    return {prefix + name.replace(".", "_").upper() for prefix, names in known.items() for name in names}


def _given() -> Iterator[str]:
    services = tuple(name.removesuffix(_SERVICE) for name in os.environ if name.endswith(_SERVICE))
    given = (name for name, text in os.environ.items() if name.startswith(PREFIX) and text)
    # Kubernetes gives every pod each Service's address: TIDEGATE_KAFKA_PORT_9092_TCP, if one is named tidegate-kafka.
    # https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    return (name for name in given if not any(_LINK.fullmatch(name.removeprefix(one)) for one in services))


def _content(variable: str, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise BadInput(f"the file {path} cannot be read: {error.strerror}", field=variable) from error
    except UnicodeDecodeError:
        raise BadInput(f"the file {path} is not UTF-8 text", field=variable) from None  # the error quotes the file
    if not text:
        raise BadInput(f"the file {path} is empty", field=variable)
    return text
