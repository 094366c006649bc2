"""The destination of lineage events if no receiver is set up: a file of JSON lines, and the one before it."""

from pathlib import Path

from filelock import FileLock
from openlineage.client.transport.file import FileConfig, FileTransport

from platform_defs.settings.home import private_home

LONGEST = 64_000_000  # bytes, after which a new file begins


def lineage_file(home: Path, longest: int = LONGEST) -> FileTransport:
    """Return a transport that appends to lineage.jsonl in `home`. A file that exceeds `longest` bytes replaces
    lineage.jsonl.1: with several batches a second, one file would grow by gigabytes a week.
    """
    private_home(home)
    file = home / "lineage.jsonl"
    if _size(file) > longest:
        with FileLock(home / "lineage.lock"):  # without it, the second of two runs would replace the file just kept
            if _size(file) > longest:
                file.replace(home / "lineage.jsonl.1")
    return FileTransport(FileConfig(log_file_path=str(file), append=True))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
