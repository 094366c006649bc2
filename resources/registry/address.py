"""Where the schema registry is, and as whom it is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

PATIENCE = 30.0  # seconds for one question, however often it is asked


@dataclass(frozen=True)
class Registry:
    """Where the registry is. Picklable. `options` are the client's: addresses (`url`), passwords, certificates."""

    options: Mapping[str, str] = field(repr=False)
    patience: float = PATIENCE

    @property
    def urls(self) -> list[str]:
        """Its addresses, each tried in turn."""
        return [url.strip() for url in self.options["url"].split(",") if url.strip()]

    @property
    def secrets(self) -> list[str]:
        """What no message may show, the longest first: options, and user and password within an address or option."""
        users = [urlsplit(url).netloc.rpartition("@")[0] for url in self.urls]
        whole = [*users, *(value for name, value in self.options.items() if name != "url")]
        parts = [one.partition(":")[2] for one in whole]
        return sorted(filter(None, [*whole, *parts]), key=len, reverse=True)

    def __str__(self) -> str:
        """The addresses, without user and password."""
        return ", ".join(_shown(url) for url in self.urls)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
