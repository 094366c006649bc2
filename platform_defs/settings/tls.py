"""The hosts in a connection URI, and the protection of the connection (TLS)."""

import ipaddress
import os
import re
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

# libpq's modes: the first three refuse nothing, `require` an unencrypted connection, the last two also a server whose
# certificate is not from the authority (sslrootcert), and verify-full also one with another name.
# https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-SSLMODE-STATEMENTS
UNPROTECTED = ("disable", "allow", "prefer")
REMEDY = "Add sslmode=verify-full, and sslrootcert with the CA certificate file"


@dataclass(frozen=True)
class Address:
    """The target of a connection: `hosts` are names, IP addresses, or folders of Unix sockets."""

    hosts: tuple[str, ...]
    sslmode: str
    gssencmode: str

    @property
    def remote(self) -> tuple[str, ...]:
        """The hosts that are reached over a network."""
        return tuple(host for host in self.hosts if not _on_this_machine(host))

    @property
    def unprotected(self) -> str | None:
        """The reason why rows could be read in transit, as a sentence with the remedy; None if they cannot."""
        if not self.remote or self.sslmode not in UNPROTECTED or self.gssencmode == "require":
            return None
        what = "is not encrypted" if self.sslmode == "disable" else "is unencrypted if the server, or an attacker "
        what += "" if self.sslmode == "disable" else "in its place, asks for that"
        return f"the connection to {', '.join(self.remote)} {what} (sslmode={self.sslmode}). {REMEDY}"


def refuse_unusable(url: str) -> None:
    """Raise ValueError, without a password, for a URI with an unknown parameter, or with one that no client can use."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        message = re.sub(r'"[^"]*"', '"..."', str(error).strip())  # what is in double quotes may contain a password
        raise ValueError(f"not a connection URI that libpq can read: {message}") from None
    # The bundled libraries have their own OpenSSL, which knows no certificate folder of this machine.
    if given.get("sslrootcert") == "system" and not os.environ.keys() & {"SSL_CERT_FILE", "SSL_CERT_DIR"}:
        raise ValueError(
            "sslrootcert=system also needs SSL_CERT_FILE, the file with the CA certificates that this machine "
            "trusts; or set sslrootcert to that file, such as sslrootcert=/etc/ssl/certs/ca-certificates.crt"
        )


def address_of(url: str) -> Address:
    """Return the target from `url` (a libpq URI), with libpq's own variables for what it leaves open.

    A service file (`service=...`) is not read.
    """
    given = conninfo_to_dict(url)
    hosts = str(given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST") or "/")
    mode = str(given.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer")
    gssencmode = str(given.get("gssencmode") or os.environ.get("PGGSSENCMODE") or "prefer")
    return Address(tuple(hosts.split(",")), mode, gssencmode)


def tls_remedy(message: str) -> str:
    """Return the remedy for a failed handshake, by libpq's `message`; empty for another error."""
    return next((f" {remedy}." for words, remedy in _REMEDIES.items() if words in message), "")


_REMEDIES = {
    "certificate verify failed": (
        "The server's certificate is not signed by a CA in sslrootcert: set it to the certificate file of the CA "
        "that signed it (sslrootcert=system: the CAs that this machine trusts)"
    ),
    "does not match host name": (
        "The server's certificate is for a different name: connect with a name in the certificate, or give the "
        "server a certificate for this name"
    ),
    "server does not support SSL": "Enable TLS on the server (ssl = on, with ssl_cert_file and ssl_key_file)",
    "root certificate file": "Set the CA certificate file: sslrootcert=/path/to/ca.pem",
}


def _on_this_machine(host: str) -> bool:
    if host.startswith(("/", "@")) or host.lower() in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
