"""Facts about Kafka's addresses. `platform_defs.doctor.findings.reach` and `.cluster` draw the conclusions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal

Kind = Literal[
    "unknown_name",  # the name has no address here
    "refused",  # nothing listens at that port
    "unreachable",  # no way there: no route, or a firewall that says so
    "no_connection",  # no answer to the attempt to connect
    "silent",  # connected, and no answer came in time
    "speaks_tls",  # the listener requires TLS; we used plaintext
    "speaks_plainly",  # we began TLS; the listener uses plaintext
    "certificate_name",  # the certificate is trusted, and made out to other names
    "certificate",  # the certificate is not trusted
    "tls",  # TLS fails in another way
    "not_kafka",  # something answers, and it is not Kafka
    "closed",  # the connection was closed on our request
    "wants_login",  # the same, because the listener wants SASL
    "no_login_there",  # we wanted to log in, and the listener has no SASL
    "mechanism",  # the listener has other mechanisms of SASL
    "login_refused",  # user or password are wrong
    "login_untried",  # a mechanism of SASL that only librdkafka speaks
    "tls_untried",  # certificates that only librdkafka reads
    "kafka_error",  # Kafka answered with an error
]


@dataclass(frozen=True, order=True)
class Address:
    """A host (a name or an IP address, IPv6 without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if it leads each machine to itself."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host.rstrip(".").lower() in ("localhost", "localhost.localdomain")


@dataclass(frozen=True)
class Trouble:
    """The reason why an address was of no use. `error`: the system's message; `more`: certificate names, mechanisms."""

    kind: Kind
    error: str
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Broker:
    """A broker as the answering broker reports it."""

    number: int  # its node.id
    address: Address


@dataclass(frozen=True)
class Answer:
    """The answer that came back through an address."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]
    answering: int | None = None  # the node.id of the broker that answered; None if unknown
    settings: Mapping[str, str] = field(default_factory=dict[str, str])  # of that broker: listeners, ...

    @property
    def listener(self) -> str | None:
        """The name of the listener through which one came in, by the answering broker's configuration: it advertises
        the address that the broker gives for itself.
        """
        me = next((one for one in self.brokers if one.number == self.answering), None)
        names = [name for name, address in self.advertised.items() if me and address == me.address]
        return names[0] if len(names) == 1 else None

    @property
    def advertised(self) -> dict[str, Address]:
        """The address that each listener of the answering broker advertises, by name."""
        found = dict[str, Address]()
        setting = self.settings.get("advertised.listeners") or self.settings.get("listeners") or ""
        for one in setting.split(","):
            name, separator, where = one.strip().partition("://")
            if separator and (address := parsed(where)) is not None:
                found[name] = address
        return found


UNTRIED: frozenset[Kind] = frozenset({"login_untried", "tls_untried"})  # librdkafka may succeed all the same
PROTOCOLS = "listener.security.protocol.map"
LISTENER_SETTINGS = ("listeners", "advertised.listeners", PROTOCOLS)


@dataclass(frozen=True)
class Seen:
    """One address, tried: an answer, or the trouble. `ips`: the number of IP addresses of its name."""

    address: Address
    outcome: Answer | Trouble
    ips: int = 1

    @property
    def answer(self) -> Answer | None:
        """The answer, if there was one."""
        return self.outcome if isinstance(self.outcome, Answer) else None


def parsed(text: str, default: int | None = None) -> Address | None:
    """Return the address in `host:port` or `[ipv6]:port`, perhaps after `PROTOCOL://`; None if it is none."""
    where = text.strip().rpartition("://")[2]
    host, separator, port = where.rpartition(":")
    if not separator or where.endswith("]"):
        host, port = where, "" if default is None else str(default)
    host = host.strip().removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        return None
    return Address(host, int(port))
