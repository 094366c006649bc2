"""The address of Postgres: the URIs that all clients read alike, and their form without passwords.

Apart from platform_defs/postgres, whose modules load the clients. Not left to libpq, since its errors quote a part
of the address, which may be part of a password.
"""

import re

MASK = "***"
# User, hosts, database, parameters, as libpq and SQLAlchemy take them. A character that separates them is encoded
# within them, and a % begins an encoded one.
# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
_ENCODED = "%(?!00)[0-9A-Fa-f]{2}"
_PART = rf"(?:[^\s:/?#\[\]@%]|{_ENCODED})*"
_HOST = rf"(?:\[[0-9A-Fa-f:.]+\]|(?:[^\s:,/?#\[\]@%]|{_ENCODED})*)(?::\d*)?"
_PARAMETERS = rf"(?:[A-Za-z_]+=(?:[^\s&=%]|{_ENCODED})*(?:&|$))*"
_ADDRESS = re.compile(rf"postgresql://(?:{_PART}(?::{_PART})?@)?{_HOST}(?:,{_HOST})*(?:/{_PART})?(?:\?{_PARAMETERS})?")
_USERS_PASSWORD = re.compile(r"(?<=://)([^:/?@]*):[^/?@]*@")
_PARAMETER = re.compile(r"(?i)([^?&=]*(?:password|passwd|secret|token)[^?&=]*)=[^&]*")

NOT_ENCODED = (
    "not a connection URI like postgresql://user:password@host:5432/database (it is not shown: it may hold a "
    "password). If the password has special characters, percent-encode each of : / ? # [ ] @ % & = and spaces, "
    "such as %2F for a slash"
)


def is_readable(url: str) -> bool:
    """Return True if every client reads the URI, and reads it alike."""
    return _ADDRESS.fullmatch(url) is not None


def masked(url: str) -> str:
    """Return the URI with `***` for its user's password and for each parameter named like one (`password`,
    `sslpassword`); only `***` for an unreadable URI.
    """
    if not is_readable(url):
        return MASK
    address, mark, parameters = _USERS_PASSWORD.sub(rf"\1:{MASK}@", url).partition("?")
    hidden = _PARAMETER.sub(rf"\1={MASK}", parameters)
    return f"{address}{mark}{hidden}"
