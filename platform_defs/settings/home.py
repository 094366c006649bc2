"""TIDEGATE_HOME, private to its user: it contains messages (Kafka's data, logs, undelivered ones) and passwords."""

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
    """Return True if Tidegate creates this name in its home, also while it is being written (.new)."""
    return name.removesuffix(".new") in MADE


def undelivered(home: Path) -> list[Path]:
    """Return the files of undelivered messages (producers/unsent/files.py): deleting them loses messages."""
    folder = home / "unsent"
    return [*sorted(folder.glob("*.unsent")), *sorted(folder.glob("*.damaged"))]


def private_home(home: Path) -> Path:
    """Return the folder, created if it is missing and closed to other users, so that nothing in it can be reached. The
    mode of a folder that another user owns stays, such as that of a volume mounted for a user without a name.

    An empty folder gets the marker without which `tidegate stack reset` deletes nothing in it; so does the home of a
    version before the marker, if it contains nothing else.

    Raises BadInput for a shared folder (/tmp): closed, it would be of no use to the others.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = {entry.name for entry in home.iterdir()}
    ours = not names or ("stack.json" in names and all(map(is_made, names)))
    found = home.stat()
    if found.st_uid == os.geteuid() and (mode := stat.S_IMODE(found.st_mode)) & ~_most():
        if mode & stat.S_ISVTX and any(home.iterdir()):
            raise BadInput(
                f"{home} is shared with other users, but Tidegate's files must be private. Use a folder in it, "
                f"such as {home / 'tidegate'}",
                field="TIDEGATE_HOME",
            )
        home.chmod(mode & _most())
    if ours and MARKER not in names:
        (home / MARKER).touch(mode=0o600)
    return home


def _most() -> int:
    """Return the widest mode. The user that Postgres runs as may pass through root's folder (`folder_access`), and so
    may root's group: in a folder with an access list, these bits limit the list.
    """
    return 0o710 if os.geteuid() == 0 else 0o700
