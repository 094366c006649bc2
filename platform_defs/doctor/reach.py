"""Findings about addresses of Kafka that fail from here, one function a case: what was found, and what to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from platform_defs.doctor.addresses import UNTRIED, Address, Answer, Kind, Trouble
from platform_defs.doctor.findings import Finding, error, warning

MAP = "listener.security.protocol.map"


@dataclass(frozen=True)
class Told:
    """The source of an advertised address: its broker, and the bootstrap address and the answer that named it."""

    broker: int
    by: Address
    answer: Answer

    @property
    def came_in(self) -> str:
        """The sentence about how one came in; it names the listener if the broker's settings may be read."""
        listener, answering = self.answer.listener, self.answer.answering
        if listener is None or answering is None:
            return f" You came in by {self.by}."
        return f" You came in by {self.by}, by the configuration of broker {answering} the listener {listener}."


@dataclass(frozen=True)
class Case:
    """An address that failed. `told` is None for a bootstrap address; `source` is then the setting that names it."""

    address: Address
    trouble: Trouble
    protocol: str  # the client's security.protocol
    source: str
    told: Told | None = None

    @property
    def who(self) -> str:
        """The beginning of the sentence: who names the address."""
        if self.told is None:
            return f"{self.source} names {self.address}."
        return f"Broker {self.told.broker} tells clients to come to {self.address}."

    @property
    def broker(self) -> str:
        return "the broker behind it" if self.told is None else f"broker {self.told.broker}"

    @property
    def listener(self) -> str:
        """The listener of the address; brokers advertise the one of the same name that the client came in by."""
        name = None if self.told is None else self.told.answer.listener
        return "its listener" if name is None else f"its listener {name}"

    @property
    def setting(self) -> str:
        """The setting to change for another address, as the beginning of a sentence."""
        if self.told is None:
            return f"{self.source} must name an address"
        return f"advertised.listeners of {self.broker} must give {self.listener} an address"

    @property
    def said(self) -> str:
        return f" ({self.trouble.said})" if self.trouble.said else ""


def explain(case: Case) -> Finding:
    """Return the finding about an address that is of no use."""
    what, do = CASES[case.trouble.kind](case)
    rate = warning if case.trouble.kind in UNTRIED else error
    came_in = "" if case.told is None else case.told.came_in
    return rate("kafka", str(case.address), f"{case.who} {what}{came_in}", do)


Words = tuple[str, str]  # what was found, and what to do


def _unknown_name(case: Case) -> Words:
    return (
        f"That name is not known here{case.said}.",
        f"{case.setting} that this machine can look up and reach; or let this machine's name service know "
        f"{case.address.host}.",
    )


def _refused(case: Case) -> Words:
    return (
        f"Nothing listens at that port{case.said}: {case.broker} is not running, its port is not mapped (a "
        "container's, or through a firewall), or it listens elsewhere.",
        f"Start {case.broker}, or map the port; `listeners` of {case.broker} must bind it on an interface that is "
        f"reached from here, and {case.setting} that leads to it.",
    )


def _unreachable(case: Case) -> Words:
    return (
        f"There is no way to it from here{case.said}.",
        f"{case.setting} in a network that this machine is in; or open the way (route, VPN, firewall).",
    )


def _no_connection(case: Case) -> Words:
    return (
        f"Nobody answers there{case.said}: a firewall drops what is sent, the machine is off, or the address is one of "
        "another network.",
        f"Open the port in the firewall; or {case.setting} that is reached from this machine.",
    )


def _silent(case: Case) -> Words:
    return (
        f"Something takes connections there and says nothing{case.said}: {case.broker} hangs, or what stands before it "
        "(a port mapping, a load balancer, a proxy) has nowhere to go on to.",
        f"Look at {case.broker} (its log, its process) and at what maps the port; it must lead to an address of "
        f"`listeners` of {case.broker}.",
    )


def _speaks_tls(case: Case) -> Words:
    return (
        f"TLS is spoken there, and this client does not: its security.protocol is {case.protocol}.",
        f"Set TIDEGATE_KAFKA_SECURITY_PROTOCOL to {_other(case, 'SSL')}; or come in by a listener of {case.broker} "
        f"without TLS ({MAP} of {case.broker} says which it has).",
    )


def _speaks_plainly(case: Case) -> Words:
    return (
        "Kafka without TLS is spoken there, and this client begins with TLS: its security.protocol is "
        f"{case.protocol}.",
        f"Come in by the port of a listener of {case.broker} with TLS ({MAP} of {case.broker} says which it has); or "
        f"set TIDEGATE_KAFKA_SECURITY_PROTOCOL to {_other(case, 'PLAINTEXT')}, where all may read along.",
    )


def _other(case: Case, ending: str) -> str:
    return f"SASL_{ending}" if case.protocol.startswith("SASL") else ending


def _certificate_name(case: Case) -> Words:
    names = ", ".join(case.trouble.more) or "other names"
    return (
        f"The certificate there is trusted and is made out to {names}, not to {case.address.host}.",
        f"{case.setting} whose host is in the certificate; or give {case.broker} a certificate (ssl.keystore.location) "
        f"whose subjectAltName has {case.address.host}. TIDEGATE_KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM=none "
        "switches the check off, and anybody with a certificate of the same authority could answer.",
    )


def _certificate(case: Case) -> Words:
    return (
        f"The certificate there is not trusted{case.said}.",
        f"Set TIDEGATE_KAFKA_SSL_CA_LOCATION to a file with the authority that signed the certificate of {case.broker} "
        "(its ssl.keystore.location).",
    )


def _tls(case: Case) -> Words:
    return (
        f"TLS fails there{case.said}.",
        f"Where {case.broker} asks for a client's certificate (ssl.client.auth=required), set "
        "TIDEGATE_KAFKA_SSL_CERTIFICATE_LOCATION and TIDEGATE_KAFKA_SSL_KEY_LOCATION; otherwise its log names the "
        f"reason, and ssl.enabled.protocols of {case.broker} what it takes.",
    )


def _not_kafka(case: Case) -> Words:
    return (
        f"What answers there is not Kafka{case.said}.",
        f"{case.setting} of Kafka; the port may be another service's (Kafka's usual one is 9092).",
    )


def _closed(case: Case) -> Words:
    return (
        f"The connection was closed{case.said}: {case.broker} is starting or stopping, its connections are limited "
        "(max.connections.per.ip), or the port is a controller's.",
        f"Look into the log of {case.broker}; {case.setting} of a broker, not one of controller.listener.names.",
    )


def _wants_login(case: Case) -> Words:
    offered = ", ".join(case.trouble.more) or "its log names them"
    return (
        f"That listener wants a login (SASL; mechanisms: {offered}), and this client's security.protocol is "
        f"{case.protocol}.",
        f"Set TIDEGATE_KAFKA_SECURITY_PROTOCOL to SASL_{case.protocol}, with TIDEGATE_KAFKA_SASL_MECHANISM, _USERNAME "
        f"and _PASSWORD; or come in by another listener of {case.broker} ({MAP}).",
    )


def _no_login_there(case: Case) -> Words:
    return (
        f"That listener has no login, and this client wants to log in: its security.protocol is {case.protocol}.",
        f"Set TIDEGATE_KAFKA_SECURITY_PROTOCOL to {case.protocol.removeprefix('SASL_')}; or come in by a listener of "
        f"{case.broker} with SASL ({MAP} of {case.broker} says which it has).",
    )


def _mechanism(case: Case) -> Words:
    offered = ", ".join(case.trouble.more) or "none"
    return (
        f"That listener does not take this client's mechanism of SASL{case.said}; it has {offered}.",
        f"Set TIDEGATE_KAFKA_SASL_MECHANISM to one of them; or add it to sasl.enabled.mechanisms of {case.broker}.",
    )


def _login_refused(case: Case) -> Words:
    return (
        f"The login was refused there{case.said}.",
        "Correct TIDEGATE_KAFKA_SASL_USERNAME and TIDEGATE_KAFKA_SASL_PASSWORD; or let an administrator of Kafka add "
        f"the user for that mechanism, on {case.broker} as on the others.",
    )


def _login_untried(case: Case) -> Words:
    return (
        f"Kafka answers there, and the doctor itself cannot log in by {case.trouble.said}: who answers, and where its "
        "brokers send clients to, was not asked.",
        "`kafka-broker-api-versions.sh --bootstrap-server` with the same login shows the brokers' addresses.",
    )


def _tls_untried(case: Case) -> Words:
    return (
        f"Something takes connections there, and the doctor itself cannot use {case.trouble.said}, which librdkafka "
        "reads: who answers, and where its brokers send clients to, was not asked.",
        "Give the certificates as files in PEM form to have it asked: TIDEGATE_KAFKA_SSL_CERTIFICATE_LOCATION, "
        "TIDEGATE_KAFKA_SSL_KEY_LOCATION and TIDEGATE_KAFKA_SSL_CA_LOCATION.",
    )


def _kafka_error(case: Case) -> Words:
    return (
        f"Kafka refuses there{case.said}.",
        f"Look into the log of {case.broker}; Tidegate needs Kafka 3.1 or later.",
    )


CASES: Mapping[Kind, Callable[[Case], Words]] = {
    "unknown_name": _unknown_name,
    "refused": _refused,
    "unreachable": _unreachable,
    "no_connection": _no_connection,
    "silent": _silent,
    "speaks_tls": _speaks_tls,
    "speaks_plainly": _speaks_plainly,
    "certificate_name": _certificate_name,
    "certificate": _certificate,
    "tls": _tls,
    "not_kafka": _not_kafka,
    "closed": _closed,
    "wants_login": _wants_login,
    "no_login_there": _no_login_there,
    "mechanism": _mechanism,
    "login_refused": _login_refused,
    "login_untried": _login_untried,
    "tls_untried": _tls_untried,
    "kafka_error": _kafka_error,
}
