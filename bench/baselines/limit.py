"""The limit of the machine: one after another, kcat reads the topic into a file, pyarrow.json converts it to columns,
and psycopg sends a prepared file of binary COPY. No Python code is run for a message.
"""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import which

import psycopg
from pyarrow import json
from pyarrow.json import ReadOptions

from platform_defs.errors import BadInput

BLOCK = 8 * 1024 * 1024  # bytes
NO_KCAT = "kcat is not installed (Debian: apt-get install kcat)"


@dataclass
class Series:
    """The three programs, and their files in `folder`."""

    folder: Path
    options: dict[str, str] = field(repr=False)  # librdkafka's; may contain a password
    url: str = field(repr=False)

    @property
    def prepared(self) -> bool:
        """True if the rows' file exists."""
        return self._rows.exists()

    def prepare(self, table: str) -> None:
        """Keep the rows of that table as its binary COPY. Raises BadInput if kcat is missing."""
        if which("kcat") is None:
            raise BadInput(NO_KCAT)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._settings.touch(mode=0o600)
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in self.options.items()))
        with (
            psycopg.connect(self.url) as database,
            self._unfinished.open("wb") as file,
            database.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)".encode()) as rows,
        ):
            for block in rows:
                file.write(block)
        self._unfinished.rename(self._rows)

    def carry(self, topic: str, table: str) -> int:
        """Read the whole topic, decode it, and fill the table. Return how many messages were decoded."""
        with self._values.open("wb") as values:
            asked = ["kcat", "-F", str(self._settings), "-C", "-t", topic, "-o", "beginning", "-e", "-q"]
            subprocess.run([*asked, "-D", "\n"], stdout=values, stderr=subprocess.DEVNULL, check=True)
        decoded = json.read_json(str(self._values), read_options=ReadOptions(block_size=BLOCK)).num_rows
        with (
            psycopg.connect(self.url) as database,
            self._rows.open("rb") as file,
            database.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)".encode()) as rows,
        ):
            for block in iter(partial(file.read, BLOCK), b""):
                rows.write(block)
        return decoded

    @property
    def _rows(self) -> Path:
        return self.folder / "rows.copy"

    @property
    def _unfinished(self) -> Path:
        return self.folder / "rows.part"

    @property
    def _values(self) -> Path:
        return self.folder / "values.json"

    @property
    def _settings(self) -> Path:
        return self.folder / "kcat.conf"


def carried(series: Series, topic: str, new_table: Callable[[], str], fill: Callable[[str], int]) -> int:
    """Make a pass over the topic. The first one prepares the rows: `fill` writes them into a table."""
    if not series.prepared:
        table = new_table()
        fill(table)
        series.prepare(table)
    return series.carry(topic, new_table())
