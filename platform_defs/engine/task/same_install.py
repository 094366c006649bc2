"""A task decodes with the same code as its run, or refuses: executors have installations of their own.

The payload is sealed: the task compares installations before it unpickles the rest, which an older one may be unable to
unpickle.
"""

from __future__ import annotations

import hashlib
import pickle
import platform
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from platform_defs.errors import OtherInstall

if TYPE_CHECKING:  # Dagster's definitions have the fingerprint, and do not wait for Arrow's and Spark's imports
    import pyarrow as pa

Batches = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]
DECODING = ("contract", "engine", "formats")  # whose code decides what a message becomes
LIBRARIES = ("pyarrow", "orjson", "confluent-kafka", "psycopg", "pgpq")  # and the libraries that it decodes with


@cache
def here() -> str:
    """Return this installation as Tidegate's version and a fingerprint of the code that decodes, as in `0.3.0 (code
    1f3a9c02)`.

    Cached, so that it describes the code that was loaded: engine/daemon.py asks before it forks.
    """
    found = hashlib.sha256()
    for name, source in sorted(_sources(resources.files("platform_defs"), "")):
        found.update(f"{name}\0{len(source)}\0".encode())
        found.update(source)
    for library in LIBRARIES:
        found.update(f"{library} {metadata.version(library)}\0".encode())
    return f"{metadata.version('tidegate')} (code {found.hexdigest()[:8]})"


def sealed(function: Batches) -> Batches:
    """Return `function`, for tasks with this installation alone. In others it raises OtherInstall."""
    from pyspark import cloudpickle

    pickler: Any = cloudpickle  # it has no types
    return partial(_opened, here(), pickler.dumps(function))


def _opened(install: str, function: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if install != here():
        raise OtherInstall(
            f"the task on {platform.node()} uses Tidegate {here()}, but the run uses Tidegate {install}. Nothing was "
            "read. Install the same version on that machine, or restart the process that still uses the older one"
        )
    opened: Batches = pickle.loads(function)  # noqa: S301  # from our own driver, as all that Spark sends
    yield from opened(batches)


def _sources(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    """Yield the Python files of DECODING, by their path within the package."""
    for item in folder.iterdir():
        path = f"{above}{item.name}"
        if not above and item.name not in DECODING:
            continue
        if item.is_dir():
            yield from _sources(item, f"{path}/")
        elif item.name.endswith(".py"):
            yield path, item.read_bytes()
