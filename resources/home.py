"""TIDEGATE_HOME is its user's alone: it holds messages (Kafka's data, logs, what was not delivered) and passwords."""

import os
import stat
from pathlib import Path

from platform_defs.errors import BadInput


def private_home(home: Path) -> Path:
    """The folder, made where it is missing, and closed to everybody else: then nothing in it can be reached. One that
    another user owns stays as it is, such as a volume that a cluster mounts for a user without a name.

    Raises BadInput for one that everybody shares (/tmp): closed, it would be of no use to the others.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = home.stat()
    if found.st_uid == os.geteuid() and (mode := stat.S_IMODE(found.st_mode)) & ~_most():
        if mode & stat.S_ISVTX and any(home.iterdir()):
            raise BadInput(
                f"{home} is shared with other users, and what Tidegate writes is its user's alone. Name a folder "
                f"in it, such as {home / 'tidegate'}",
                field="TIDEGATE_HOME",
            )
        home.chmod(mode & _most())
    return home


def _most() -> int:
    """The widest mode. Root's may be passed through by the user that Postgres runs as (`local.passage`), and by root's
    group: of a folder with an access list, these bits limit what is in the list.
    """
    return 0o710 if os.geteuid() == 0 else 0o700
