"""The address of the schema registry, and the user for it."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote, urlsplit

# Seconds for one query, including all retries. A run then fails within half a minute: Spark tries the task three times
# more, which costs a second or two each.
PATIENCE = 25.0


@dataclass(frozen=True)
class Pace:
    """The client's pace while it waits for an answer, in seconds."""

    one_try: float = 5.0  # for one request: a later answer, or one byte by byte, is not waited for
    pause: float = 0.2  # before the second try; then twice as long each time, up to two seconds
    refused: float = 1.0  # until an id that is refused, while others are answered, counts as refused permanently
    quickly: float = 3.0  # for queries that a run can do without
    again: float = 1.0  # for a query, soon after one without an answer


@dataclass(frozen=True)
class Registry:
    """The registry's address. Picklable. `options` are the client's: addresses (`url`), passwords, certificates."""

    options: Mapping[str, str] = field(repr=False)
    patience: float = PATIENCE
    pace: Pace = Pace()

    def hurried(self, seconds: float) -> "Registry":
        """Return the same registry for queries that wait at most `seconds`."""
        return replace(self, patience=min(self.patience, seconds))

    @property
    def urls(self) -> list[str]:
        """Its addresses, each tried in turn."""
        return [url.strip() for url in self.options["url"].split(",") if url.strip()]

    @property
    def secrets(self) -> list[str]:
        """The texts that no message may show, the longest first: options, and the parts of an address besides host and
        path; each in its original form, with and without percent signs, and in a header's form.
        """
        whole = [value for name, value in self.options.items() if name != "url"]
        for url in self.urls:
            parts = urlsplit(url)
            values = (pair.partition("=")[2] for pair in parts.query.split("&"))
            whole += [parts.netloc.rpartition("@")[0], parts.query, parts.fragment, *values]
        found = {spelled for one in whole for part in (one, one.partition(":")[2]) for spelled in _spelled(part)}
        return sorted(filter(None, found), key=len, reverse=True)

    def __str__(self) -> str:
        """Return the addresses, without user, password and query."""
        parts = map(urlsplit, self.urls)
        shown = (one._replace(netloc=one.netloc.rpartition("@")[2], query="", fragment="") for one in parts)
        return ", ".join(one.geturl() for one in shown)


def _spelled(secret: str) -> tuple[str, ...]:
    """Return the secret as written; without percent signs, with them, and in base64."""
    plain = unquote(secret)
    return secret, plain, quote(plain, safe=""), quote(plain), b64encode(plain.encode()).decode()
