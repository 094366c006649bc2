"""Servers that replace the broker in tests of `tidegate doctor`.

`Misleading` is a proxy that changes the addresses in the broker's responses; `Encrypting` speaks TLS in front of a
plaintext broker; `Mute` accepts connections and never responds.
"""

import datetime
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Change = Callable[[bytes], bytes]  # of one response, without its length


class _Listener:
    """A server on a port of 127.0.0.1 that serves each connection in threads of its own."""

    def __init__(self, to: int) -> None:
        self.to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self.to)) as server:
            opened = self.opened(client)
            threading.Thread(target=self._upwards, args=(opened, server), daemon=True).start()
            while head := _exactly(server, 4):
                answer = self.changed(_exactly(server, *struct.unpack(">i", head)))
                opened.sendall(struct.pack(">i", len(answer)) + answer)

    def _upwards(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def opened(self, client: socket.socket) -> socket.socket:
        return client

    def changed(self, answer: bytes) -> bytes:
        return answer


class Misleading(_Listener):
    """A proxy to the broker on port `to` that passes its responses through `change`."""

    def __init__(self, to: int, change: Change) -> None:
        super().__init__(to)
        self.change = change

    def changed(self, answer: bytes) -> bytes:
        return self.change(answer)


class Encrypting(_Listener):
    """A TLS proxy, with this certificate and key, to the broker on port `to`."""

    def __init__(self, to: int, certificate: Path, change: Change = bytes) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate)
        self.change = change
        super().__init__(to)

    def opened(self, client: socket.socket) -> socket.socket:
        return self._context.wrap_socket(client, server_side=True)

    def changed(self, answer: bytes) -> bytes:
        return self.change(answer)


class Mute:
    """A server on a port of 127.0.0.1 that accepts connections and never responds, like a broker that hangs."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def closed_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def broker(number: int, host: str, port: int, rack: str | None = None) -> bytes:
    """Return a broker as encoded in a Metadata response, in versions without tagged fields."""
    return struct.pack(">i", number) + _text(host) + struct.pack(">i", port) + (_text(rack) if rack else b"\xff\xff")


def sending_to(found: bytes, *brokers: bytes) -> Change:
    """Return a change that replaces the list of one broker, `found`, with `brokers`."""
    replaced = struct.pack(">i", len(brokers)) + b"".join(brokers)
    return lambda answer: answer.replace(struct.pack(">i", 1) + found, replaced)


def certificate(folder: Path, name: str) -> Path:
    """Write a self-signed certificate and its key for a DNS name or an IP address; return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"a test of tidegate: {name}")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([_general_name(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, plain) + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _exactly(connection: socket.socket, length: int) -> bytes:
    """Read exactly `length` bytes; return none if the connection has ended."""
    found = b""
    while len(found) < length:
        if not (piece := connection.recv(length - len(found))):
            return b""
        found += piece
    return found
