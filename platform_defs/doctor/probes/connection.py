"""The connection to an address of Kafka: name, TCP, TLS. Each step raises Stopped, and none outlasts its deadline.

TLS is configured by librdkafka's options: those that name files, and those that switch checks off.
"""

import socket
import ssl
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from platform_defs.doctor.findings.addresses import Address, parsed
from platform_defs.doctor.probes.conversation import Stopped
from platform_defs.errors import BadInput

OTHER_NAME = {62, 64}  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
# Options that librdkafka reads and Python's ssl cannot, at least not from there.
UNREAD = ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem", "ssl.ca.certificate.stores")
Place = tuple[socket.AddressFamily, Any]  # an IP address and a port, as sockets take them


def resolve(address: Address, deadline: float) -> Sequence[Place]:
    """Resolve the name. The system's own lookup cannot be cancelled: a thread that nothing waits for does it."""
    found = Future[Sequence[Place]]()

    def look_up() -> None:
        try:
            listed = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            found.set_result([(family, place) for family, _, _, _, place in listed])
        except (OSError, UnicodeError) as error:  # UnicodeError: a label of more than 63 letters
            found.set_exception(error)

    threading.Thread(target=look_up, daemon=True).start()
    try:
        return found.result(timeout=max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        raise Stopped("unknown_name", "the name service did not answer in time") from None
    except OSError as error:
        raise Stopped("unknown_name", error.strerror or error) from error
    except UnicodeError as error:
        raise Stopped("unknown_name", error) from error


@contextmanager
def connected(places: Sequence[Place], deadline: float) -> Generator[socket.socket]:
    """Open a connection to the first place that accepts one; each gets its share of the remaining time."""
    refused = Stopped("unreachable", "the name has no address")
    for tried, place in enumerate(places):
        try:
            connection = _connect(place, max(0.001, deadline - time.monotonic()) / (len(places) - tried))
        except Stopped as stopped:
            refused = stopped
            continue
        with connection:
            yield connection
            return
    raise refused


def _connect(place: Place, seconds: float) -> socket.socket:
    family, where = place
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(where)
    except OSError as error:
        connection.close()
        if isinstance(error, TimeoutError):
            raise Stopped("no_connection", "no answer") from error
        kind = "refused" if isinstance(error, ConnectionRefusedError) else "unreachable"
        raise Stopped(kind, error.strerror or error) from error
    return connection


@contextmanager
def encrypted(
    plain: socket.socket, context: ssl.SSLContext, host: str | None, deadline: float
) -> Generator[ssl.SSLSocket]:
    """Open TLS over the connection, with the certificate checked by `context`; `host` is the expected name."""
    plain.settimeout(max(0.001, deadline - time.monotonic()))
    try:
        connection = context.wrap_socket(plain, server_hostname=host)
    except TimeoutError as error:
        raise Stopped("silent", "no answer to the TLS handshake") from error
    except ssl.SSLCertVerificationError as error:
        kind = "certificate_name" if error.verify_code in OTHER_NAME else "certificate"
        raise Stopped(kind, error.verify_message) from error
    except OSError as error:
        raise Stopped("tls", error.strerror or error) from error
    with connection:
        yield connection


def connection_problem(text: str, deadline: float) -> str | None:
    """Return why no connection can be made to the address in `text`; None if one can."""
    if (address := parsed(text)) is None:
        return f"{text} is not an address like spark.example.com:7077"
    try:
        with connected(resolve(address, deadline), deadline):
            return None
    except Stopped as stopped:
        return stopped.trouble.error


def unread(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the given options that the doctor's own TLS does not support."""
    return tuple(name for name in UNREAD if options.get(name))


def context_of(options: Mapping[str, str]) -> ssl.SSLContext:
    """Return a client's TLS context with these options. Raises BadInput if a file cannot be read."""
    try:
        pem, where = options.get("ssl.ca.pem"), options.get("ssl.ca.location")
        location = where if not pem and where != "probe" else None  # none: the system's authorities
        folder = location if location and Path(location).is_dir() else None
        file = None if folder else location or None
        made = ssl.create_default_context(cafile=file, capath=folder, cadata=pem or None)
        if certificate := options.get("ssl.certificate.location"):
            password = options.get("ssl.key.password", "")  # never None: OpenSSL would prompt for it at the terminal
            made.load_cert_chain(certificate, options.get("ssl.key.location") or None, password)
    except (OSError, ValueError) as error:
        names = "ssl.ca.location, ssl.certificate.location, ssl.key.location"
        raise BadInput(
            f"the certificates in {names} cannot be read: {error}. Provide PEM files that this user may read",
            field="TIDEGATE_KAFKA_SSL_*",
        ) from error
    if options.get("ssl.endpoint.identification.algorithm", "https") != "https":
        made.check_hostname = False
    if options.get("enable.ssl.certificate.verification", "true").lower() in ("false", "0", "f"):
        return trusting(made)
    return made


def trusting(context: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """Return `context`, or a new one, that trusts every certificate: if a user configures that, and to test whether a
    server speaks TLS at all (nothing secret goes over that connection).
    """
    context = context or ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
