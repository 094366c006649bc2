"""TIDEGATE_HOME is its user's alone: it holds messages (Kafka's data, logs, what was not delivered) and passwords."""

import os
import stat
from pathlib import Path

from platform_defs.errors import BadInput

MARKER = ".tidegate-home"  # in a folder that is Tidegate's alone
_NAMES = (
    "dagster kafka kafka-2 kafka-3 lineage.jsonl lineage.jsonl.1 lineage.lock logs measure measure.lock postgres "
    "postgres.password reassignment.json registry spark stack.json stack.lock ui.json unsent"
)
MADE = frozenset({MARKER, *_NAMES.split()})  # every name that Tidegate gives to a file or folder in its home


def is_made(name: str) -> bool:
    """Return True for the name of what Tidegate creates in its home, also while it is being written (.new)."""
    return name.removesuffix(".new") in MADE


def private_home(home: Path) -> Path:
    """The folder, made where it is missing, and closed to everybody else: then nothing in it can be reached. One that
    another user owns stays as it is, such as a volume that a cluster mounts for a user without a name.

    One that is empty gets the marker without which `tidegate stack reset` deletes nothing in it; so does the home of a
    version before the marker, if nothing else is in it.

    Raises BadInput for one that everybody shares (/tmp): closed, it would be of no use to the others.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = {entry.name for entry in home.iterdir()}
    ours = not names or ("stack.json" in names and all(map(is_made, names)))
    found = home.stat()
    if found.st_uid == os.geteuid() and (mode := stat.S_IMODE(found.st_mode)) & ~_most():
        if mode & stat.S_ISVTX and any(home.iterdir()):
            raise BadInput(
                f"{home} is shared with other users, and what Tidegate writes is its user's alone. Name a folder "
                f"in it, such as {home / 'tidegate'}",
                field="TIDEGATE_HOME",
            )
        home.chmod(mode & _most())
    if ours and MARKER not in names:
        (home / MARKER).touch(mode=0o600)
    return home


def _most() -> int:
    """The widest mode. Root's may be passed through by the user that Postgres runs as (`local.passage`), and by root's
    group: of a folder with an access list, these bits limit what is in the list.
    """
    return 0o710 if os.geteuid() == 0 else 0o700
