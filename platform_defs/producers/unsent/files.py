"""Files in TIDEGATE_HOME/unsent for messages that were not delivered while Postgres was unavailable.

Each process appends to its own file and syncs it before it counts a message as kept. The next process that reaches
Postgres takes the files in: under the file's lock it adds the messages to the table, and only then deletes the file. A
process that dies in between leaves both, and the table takes no message twice.
"""

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from platform_defs.errors import BadInput
from platform_defs.producers.undelivered import UnsentMessage, from_line, in_portions, to_line
from platform_defs.settings.home import private_home
from platform_defs.settings.settings import settings

AT_ONCE = 500  # messages, added to the table in one transaction
SUFFIX = ".unsent"
DAMAGED = ".damaged"


@dataclass(frozen=True)
class UnsentFiles:
    """The files in `folder`."""

    folder: Path

    def own(self) -> Path:
        """Return the path of a new file for this process; the first append creates it."""
        return self.folder / f"{time.time_ns()}-{os.getpid()}{SUFFIX}"

    def append(self, path: Path, messages: Iterable[UnsentMessage]) -> None:
        """Append the messages and wait until the disk has them. Raises OSError, and then the file is as before."""
        private_home(self.folder.parent)
        self.folder.mkdir(exist_ok=True, mode=0o700)
        with _locked(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            whole = os.fstat(file).st_size
            try:
                for message in messages:
                    line = to_line(message)
                    while line:
                        line = line[os.write(file, line) :]
                os.fsync(file)
            except BaseException:  # the disk may be full: no torn line may precede later ones
                os.ftruncate(file, whole)
                raise
        _sync(self.folder)

    def waiting(self) -> list[Path]:
        """Return the files, oldest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"))  # their names begin with the time

    def left(self) -> list[Path]:
        """Return the waiting and the damaged files: deleting them loses messages."""
        return [*self.waiting(), *sorted(self.folder.glob(f"*{DAMAGED}"))]

    def take_in(self, keep: Callable[[Sequence[UnsentMessage]], None]) -> int:
        """Pass every message to `keep`, which returns when they are committed, then delete the files. Return their
        number.

        An error from `keep` ends it, and no file is lost. Raises BadInput for a file that is damaged in the middle: the
        readable messages were passed on, and the file stays under another name.
        """
        try:
            return sum(self.take(path, keep) for path in self.waiting())
        except PermissionError as error:
            message = (
                "messages that were not delivered are here, in a file that belongs to another user; run this "
                "command as that user"
            )
            raise BadInput(message, file=str(error.filename or self.folder)) from error

    def take(self, path: Path, keep: Callable[[Sequence[UnsentMessage]], None]) -> int:
        """As `take_in`, for one file; 0 if it no longer exists."""
        taken = 0
        with suppress(FileNotFoundError), _locked(path, os.O_RDWR):
            damaged: list[int] = []
            for messages in in_portions(_read(path, damaged), AT_ONCE, lambda message: message.size):
                keep(messages)
                taken += len(messages)
            if damaged:
                kept = path.rename(path.with_suffix(DAMAGED))
                raise BadInput(
                    f"{len(damaged)} of the messages in this file cannot be read: their checksums do not match. The "
                    f"others were moved to the ledger. The file was kept as {kept.name}",
                    file=str(path),
                    line=damaged[0],
                )
            path.unlink()
            _sync(self.folder)
        return taken


def unsent_files() -> UnsentFiles:
    """Return the files in TIDEGATE_HOME."""
    return UnsentFiles(settings().home / "unsent")


@contextmanager
def _locked(path: Path, flags: int) -> Generator[int]:
    """Open and lock the file now at `path`, not one that was deleted or renamed while waiting for the lock."""
    while True:
        file = os.open(path, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                yield file
                return
        finally:
            os.close(file)


def _sync(folder: Path) -> None:
    """Sync the folder's entries to disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _read(path: Path, damaged: list[int]) -> Generator[UnsentMessage]:
    """Yield the messages in the file. Add the numbers of unreadable lines to `damaged`, except for a torn last one: its
    process died while writing, and had not yet counted the message as kept.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if (message := from_line(line)) is not None:
                yield message
            elif line.endswith(b"\n"):
                damaged.append(number)
