"""What a connection URI says of the way to the server: over which hosts, and whether it is protected (TLS)."""

import ipaddress
import os
import re
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict

# libpq's, by what they refuse: the first three nothing, `require` an unencrypted connection, the last two also a server
# whose certificate is not of the authority (sslrootcert), and verify-full one of another name.
# https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-SSLMODE-STATEMENTS
UNPROTECTED = ("disable", "allow", "prefer")
REMEDY = "Add sslmode=verify-full, and sslrootcert with the file of the authority's certificate"


@dataclass(frozen=True)
class Address:
    """Where a connection goes: `hosts` are names, IP addresses, or folders of Unix sockets."""

    hosts: tuple[str, ...]
    sslmode: str
    gssencmode: str

    @property
    def remote(self) -> tuple[str, ...]:
        """The hosts that are reached over a network."""
        return tuple(host for host in self.hosts if not _on_this_machine(host))

    @property
    def unprotected(self) -> str | None:
        """Why rows could be read on the way, as a sentence, with what to set; None where they cannot."""
        if not self.remote or self.sslmode not in UNPROTECTED or self.gssencmode == "require":
            return None
        what = "is not encrypted" if self.sslmode == "disable" else "is unencrypted wherever the server, or whoever "
        what += "" if self.sslmode == "disable" else "answers in its place, says so"
        return f"the connection to {', '.join(self.remote)} {what} (sslmode={self.sslmode}). {REMEDY}"


def refuse_unusable(url: str) -> None:
    """Raise ValueError, without a password, for a URI with a parameter that is none, or that no client can go by."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ValueError(f"not a connection URI that libpq can read: {_without_values(error)}") from None
    # What comes with Tidegate brings an OpenSSL of its own, which knows no folder of this machine.
    if given.get("sslrootcert") == "system" and not os.environ.keys() & {"SSL_CERT_FILE", "SSL_CERT_DIR"}:
        raise ValueError(
            "sslrootcert=system needs SSL_CERT_FILE as well, the file of the authorities that this machine trusts; or "
            "give that file itself, such as sslrootcert=/etc/ssl/certs/ca-certificates.crt"
        )


def address_of(url: str) -> Address:
    """What `url` (a libpq URI), and libpq's own variables where it is silent, say.

    A service file (`service=...`) is not read: what it says is not known.
    """
    given = conninfo_to_dict(url)
    hosts = str(given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST") or "/")
    mode = str(given.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer")
    gssencmode = str(given.get("gssencmode") or os.environ.get("PGGSSENCMODE") or "prefer")
    return Address(tuple(hosts.split(",")), mode, gssencmode)


def _without_values(error: psycopg.Error) -> str:
    """libpq's words, which quote what they are about in double quotes: that may be a password."""
    return re.sub(r'"[^"]*"', '"..."', str(error).strip())


def tls_remedy(said: str) -> str:
    """What to do about a handshake that failed, by libpq's words (`said`); empty where it was something else."""
    for words, remedy in _REMEDIES.items():
        if words in said:
            return f" {remedy}."
    return ""


_REMEDIES = {
    "certificate verify failed": (
        "The server's certificate is not of an authority in sslrootcert: give the file of the one that signed it "
        "(sslrootcert=system: those that this machine trusts)"
    ),
    "does not match host name": (
        "The server's certificate is for another name: connect by a name that it has, or give the server one for this "
        "name"
    ),
    "server does not support SSL": "Let the server speak TLS (ssl = on, with ssl_cert_file and ssl_key_file)",
    "root certificate file": "Give the file of the authority's certificate: sslrootcert=/path/to/ca.pem",
}


def _on_this_machine(host: str) -> bool:
    if host.startswith(("/", "@")) or host.lower() in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
