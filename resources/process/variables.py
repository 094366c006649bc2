"""The TIDEGATE_* variables: each given directly, or as the path of a file with its value.

Docker and Kubernetes provide secrets as files: TIDEGATE_POSTGRES_URL_FILE names the file with the value of
TIDEGATE_POSTGRES_URL. A file is read each time its variable is used, so a new run gets the current value.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from platform_defs.errors import BadInput

PREFIX = "TIDEGATE_"
KAFKA_PREFIX = PREFIX + "KAFKA_"
REGISTRY_PREFIX = PREFIX + "REGISTRY_"
FILE = "_FILE"
# Options whose own names end with it. https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
_OWN = {
    KAFKA_PREFIX + "SASL_OAUTHBEARER_ASSERTION_FILE",
    KAFKA_PREFIX + "SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE",
    KAFKA_PREFIX + "SASL_OAUTHBEARER_ASSERTION_JWT_TEMPLATE_FILE",
}
_SERVICE = "_SERVICE_HOST"
_LINK = re.compile(r"_SERVICE_HOST|_SERVICE_PORT(_[A-Z0-9_]+)?|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?")
_UNDERSCORED = ("log_level",)  # options of librdkafka that have no dot


def names() -> list[str]:
    """Return the variables that are given, with those in files under their plain names."""
    return sorted({name if name in _OWN else name.removesuffix(FILE) for name in _given()})


def value(name: str) -> str | None:
    """Return a variable's value; an empty one counts as unset. Raises BadInput, without a file's content, if it is
    given twice or its file cannot be read.
    """
    given, path = os.environ.get(name), None if name + FILE in _OWN else os.environ.get(name + FILE)
    if not path:
        return given or None
    if given:
        raise BadInput(f"{name} is also set; unset one of the two", field=name + FILE)
    return _content(name + FILE, Path(path))


def options(prefix: str) -> dict[str, str]:
    """Return the variables with this prefix by option name: in small letters, with dots. Raises BadInput."""
    return {_option(name, prefix): text for name in names() if name.startswith(prefix) and (text := value(name))}


def from_files() -> Mapping[str, str]:
    """Return the variables that are given as files, with the files' content. Raises BadInput."""
    return {name: text for name in names() if os.environ.get(name + FILE) and (text := value(name))}


def _given() -> Iterator[str]:
    services = tuple(name.removesuffix(_SERVICE) for name in os.environ if name.endswith(_SERVICE))
    given = (name for name, text in os.environ.items() if name.startswith(PREFIX) and text)
    return (name for name in given if not any(_is_link(name, service) for service in services))


def _is_link(name: str, service: str) -> bool:
    """Return True if Kubernetes has set it: every pod gets each Service's address, TIDEGATE_KAFKA_PORT_9092_TCP say, if
    one is named tidegate-kafka.

    https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    """
    return _LINK.fullmatch(name.removeprefix(service)) is not None


def _option(name: str, prefix: str) -> str:
    own = name.removeprefix(prefix).lower()
    return own if own in _UNDERSCORED else own.replace("_", ".")


def _content(variable: str, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise BadInput(f"the file {path} cannot be read: {error.strerror}", field=variable) from error
    except UnicodeDecodeError:
        raise BadInput(f"the file {path} is not UTF-8 text", field=variable) from None  # the error quotes the file
    if not text:
        raise BadInput(f"the file {path} is empty", field=variable)
    return text
