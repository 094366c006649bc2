"""What stands where clients are sent to, and is not the broker: for tests of `tidegate doctor`.

`Misleading` passes on what clients and a broker say, and changes what the broker tells of addresses; `Encrypting`
speaks TLS before a broker that does not; `Mute` takes connections and says nothing.
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

Change = Callable[[bytes], bytes]  # of one answer, without its length


class _Listener:
    """Takes connections at a port of 127.0.0.1; each is carried by threads of its own."""

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
    """Before the broker at port `to`: `change` is what becomes of its answers."""

    def __init__(self, to: int, change: Change) -> None:
        super().__init__(to)
        self.change = change

    def changed(self, answer: bytes) -> bytes:
        return self.change(answer)


class Encrypting(_Listener):
    """Speaks TLS, with this certificate and key, before the broker at port `to`."""

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
    """Takes connections at a port of 127.0.0.1, as a broker does that hangs, and says nothing."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


def closed_port() -> int:
    """A port of 127.0.0.1 where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def broker(number: int, host: str, port: int, rack: str | None = None) -> bytes:
    """A broker as an answer to Metadata names it, in versions without tagged fields."""
    return struct.pack(">i", number) + _text(host) + struct.pack(">i", port) + (_text(rack) if rack else b"\xff\xff")


def sending_to(found: bytes, *told: bytes) -> Change:
    """In the list of one broker, `found`, the brokers `told` in its place."""
    return lambda answer: answer.replace(struct.pack(">i", 1) + found, struct.pack(">i", len(told)) + b"".join(told))


def certificate(folder: Path, name: str) -> Path:
    """A file with a key and a certificate, its own authority, for a DNS name or an IP address."""
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
    """So many bytes; none where the connection has ended."""
    found = b""
    while len(found) < length:
        if not (piece := connection.recv(length - len(found))):
            return b""
        found += piece
    return found
