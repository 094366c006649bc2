"""The connection to an address of Kafka: name, TCP, TLS. Each step raises Stopped, and none outlasts its deadline."""

import queue
import socket
import ssl
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from platform_defs.doctor.findings.addresses import Address
from platform_defs.doctor.probes.conversation import Stopped

OTHER_NAME = {62, 64}  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
Place = tuple[socket.AddressFamily, Any]  # an IP address and a port, as sockets take them


def resolve(address: Address, deadline: float) -> Sequence[Place]:
    """Resolve the name. The system's own lookup cannot be cancelled: a thread that nothing waits for does it."""
    found = queue.SimpleQueue[Sequence[Place] | OSError]()
    threading.Thread(target=lambda: found.put(_looked_up(address)), daemon=True).start()
    try:
        places = found.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise Stopped("unknown_name", "the name service did not answer in time") from None
    if isinstance(places, OSError):
        raise Stopped("unknown_name", places.strerror or places) from places
    return places


def _looked_up(address: Address) -> Sequence[Place] | OSError:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError as error:  # a label of more than 63 letters
        return OSError(0, str(error))
    return [(family, place) for family, _, _, _, place in found]


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
