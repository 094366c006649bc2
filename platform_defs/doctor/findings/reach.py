"""Findings about addresses of Kafka that fail from here, by the kind of trouble: what was found, and what to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from platform_defs.doctor.findings.addresses import PROTOCOLS, UNTRIED, Address, Answer, Kind, Trouble
from platform_defs.doctor.findings.finding import Finding, Subject


@dataclass(frozen=True)
class Advertised:
    """The source of an advertised address: its broker, and the bootstrap address and the answer that named it."""

    broker: int
    bootstrap: Address
    answer: Answer

    @property
    def came_in(self) -> str:
        """The sentence about how one came in; it names the listener if the broker's settings may be read."""
        listener, answering = self.answer.listener, self.answer.answering
        if listener is None or answering is None:
            return f" You connected through {self.bootstrap}."
        return (
            f" You connected through {self.bootstrap}, which is the listener {listener} in the configuration of broker "
            f"{answering}."
        )


@dataclass(frozen=True)
class Case:
    """An address that failed. `advertised` is None for a bootstrap address, which the setting `source` names."""

    address: Address
    trouble: Trouble
    protocol: str  # the client's security.protocol
    source: str
    advertised: Advertised | None = None

    @property
    def who(self) -> str:
        """The beginning of the sentence: who names the address."""
        if self.advertised is None:
            return f"{self.source} contains {self.address}."
        return f"Broker {self.advertised.broker} advertises {self.address}."

    @property
    def broker(self) -> str:
        return "the broker behind it" if self.advertised is None else f"broker {self.advertised.broker}"

    @property
    def listener(self) -> str:
        """The listener of the address; brokers advertise the one of the same name that the client came in by."""
        name = None if self.advertised is None else self.advertised.answer.listener
        return "its listener" if name is None else f"its listener {name}"

    @property
    def setting(self) -> str:
        """The setting to change for another address, as the beginning of a sentence."""
        if self.advertised is None:
            return f"{self.source} must contain an address"
        return f"advertised.listeners of {self.broker} must give {self.listener} an address"

    @property
    def quoted(self) -> str:
        """The system's message in parentheses, after a space; empty if there is none."""
        return f" ({self.trouble.error})" if self.trouble.error else ""

    def more(self, otherwise: str) -> str:
        """Return the names of the certificate, or the mechanisms of the listener; `otherwise` if none are known."""
        return ", ".join(self.trouble.more) or otherwise

    def protocol_like(self, ending: str) -> str:
        """Return the security.protocol with this ending, with a login if the client's has one."""
        return f"SASL_{ending}" if self.protocol.startswith("SASL") else ending


def explain(case: Case) -> Finding:
    """Return the finding about an address that is of no use."""
    what, do = CASES[case.trouble.kind](case)
    subject = Subject("kafka", str(case.address))
    rate = subject.warning if case.trouble.kind in UNTRIED else subject.error
    came_in = "" if case.advertised is None else case.advertised.came_in
    return rate(f"{case.who} {what}{came_in}", do)


Words = tuple[str, str]  # what was found, and what to do
CASES: Mapping[Kind, Callable[[Case], Words]] = {
    "unknown_name": lambda case: (
        f"This machine cannot resolve that name{case.quoted}.",
        f"{case.setting} that this machine can resolve and reach; or add {case.address.host} to this machine's DNS "
        "or hosts file.",
    ),
    "refused": lambda case: (
        f"Nothing listens on that port{case.quoted}: {case.broker} is not running, its port is not mapped (in a "
        "container or firewall), or it listens elsewhere.",
        f"Start {case.broker}, or map the port; `listeners` of {case.broker} must bind to an interface that is "
        f"reachable from here, and {case.setting} that leads to it.",
    ),
    "unreachable": lambda case: (
        f"There is no network route to it from here{case.quoted}.",
        f"{case.setting} in a network that this machine is in; or set up access (route, VPN, firewall).",
    ),
    "no_connection": lambda case: (
        f"Nothing answers there{case.quoted}: a firewall drops the packets, the machine is off, or the address "
        "belongs to another network.",
        f"Open the port in the firewall; or {case.setting} that is reachable from this machine.",
    ),
    "silent": lambda case: (
        f"Something accepts connections there but does not respond{case.quoted}: {case.broker} hangs, or whatever is "
        "in front of it (a port mapping, a load balancer, a proxy) has no backend.",
        f"Check {case.broker} (its log, its process) and the port mapping, which must lead to an address in "
        f"`listeners` of {case.broker}.",
    ),
    "speaks_tls": lambda case: (
        f"The listener requires TLS, but this client does not use it: its security.protocol is {case.protocol}.",
        f"Set TIDEGATE_KAFKA_SECURITY_PROTOCOL to {case.protocol_like('SSL')}; or connect through a listener of "
        f"{case.broker} without TLS ({PROTOCOLS} of {case.broker} lists its listeners).",
    ),
    "speaks_plainly": lambda case: (
        f"The listener does not use TLS, but this client does: its security.protocol is {case.protocol}.",
        f"Connect to the port of a listener of {case.broker} with TLS ({PROTOCOLS} of {case.broker} lists its "
        f"listeners); or set TIDEGATE_KAFKA_SECURITY_PROTOCOL to {case.protocol_like('PLAINTEXT')}, which sends "
        "everything unencrypted.",
    ),
    "certificate_name": lambda case: (
        f"The certificate there is trusted, but it is issued for {case.more('other names')}, not for "
        f"{case.address.host}.",
        f"{case.setting} whose host is in the certificate; or give {case.broker} a certificate "
        f"(ssl.keystore.location) whose subjectAltName has {case.address.host}. "
        "TIDEGATE_KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM=none turns the check off: any server with a "
        "certificate from the same authority could then answer.",
    ),
    "certificate": lambda case: (
        f"The certificate there is not trusted{case.quoted}.",
        "Set TIDEGATE_KAFKA_SSL_CA_LOCATION to a file with the CA certificate that signed the certificate of "
        f"{case.broker} (its ssl.keystore.location).",
    ),
    "tls": lambda case: (
        f"TLS fails there{case.quoted}.",
        f"If {case.broker} requires a client certificate (ssl.client.auth=required), set "
        "TIDEGATE_KAFKA_SSL_CERTIFICATE_LOCATION and TIDEGATE_KAFKA_SSL_KEY_LOCATION. Otherwise, its log has the "
        f"reason, and ssl.enabled.protocols of {case.broker} lists the TLS versions that it accepts.",
    ),
    "not_kafka": lambda case: (
        f"The service that answers there is not Kafka{case.quoted}.",
        f"{case.setting} of Kafka; the port may belong to another service (Kafka's default is 9092).",
    ),
    "closed": lambda case: (
        f"The connection was closed{case.quoted}: {case.broker} is starting or stopping, its connections are limited "
        "(max.connections.per.ip), or the port is a controller's.",
        f"Check the log of {case.broker}; {case.setting} of a broker, not of a listener in controller.listener.names.",
    ),
    "wants_login": lambda case: (
        f"That listener requires a login (SASL; mechanisms: {case.more('its log names them')}), but this client's "
        f"security.protocol is {case.protocol}.",
        f"Set TIDEGATE_KAFKA_SECURITY_PROTOCOL to SASL_{case.protocol}, with TIDEGATE_KAFKA_SASL_MECHANISM, "
        f"_USERNAME and _PASSWORD; or connect through another listener of {case.broker} ({PROTOCOLS}).",
    ),
    "no_login_there": lambda case: (
        "That listener does not use a login, but this client tries to log in: its security.protocol is "
        f"{case.protocol}.",
        f"Set TIDEGATE_KAFKA_SECURITY_PROTOCOL to {case.protocol.removeprefix('SASL_')}; or connect through a "
        f"listener of {case.broker} with SASL ({PROTOCOLS} of {case.broker} lists its listeners).",
    ),
    "mechanism": lambda case: (
        f"That listener does not accept this client's SASL mechanism{case.quoted}; it offers {case.more('none')}.",
        "Set TIDEGATE_KAFKA_SASL_MECHANISM to one of these; or add the client's mechanism to "
        f"sasl.enabled.mechanisms of {case.broker}.",
    ),
    "login_refused": lambda case: (
        f"The login was rejected there{case.quoted}.",
        "Correct TIDEGATE_KAFKA_SASL_USERNAME and TIDEGATE_KAFKA_SASL_PASSWORD; or ask a Kafka administrator to "
        f"add the user for that mechanism, on {case.broker} as on the other brokers.",
    ),
    "login_untried": lambda case: (
        f"Kafka answers there, but the doctor itself cannot log in with {case.trouble.error}: it did not check "
        "which broker answers, or which addresses the brokers advertise.",
        "`kafka-broker-api-versions.sh --bootstrap-server` with the same login shows the brokers' addresses.",
    ),
    "tls_untried": lambda case: (
        f"Something accepts connections there, but the doctor itself cannot use {case.trouble.error}, which "
        "librdkafka reads: it did not check which broker answers, or which addresses the brokers advertise.",
        "To let the doctor check this, provide the certificates as PEM files: "
        "TIDEGATE_KAFKA_SSL_CERTIFICATE_LOCATION, TIDEGATE_KAFKA_SSL_KEY_LOCATION and "
        "TIDEGATE_KAFKA_SSL_CA_LOCATION.",
    ),
    "kafka_error": lambda case: (
        f"Kafka rejects the request there{case.quoted}.",
        f"Check the log of {case.broker}; Tidegate requires Kafka 3.1 or later.",
    ),
}
