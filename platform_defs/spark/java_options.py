"""The JVM option that uses the class archive which archive.py makes."""

import sys
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "tidegate"  # in the environment, whose jars and Java the archive fits


def java_options() -> str:
    """Return the JVM option that uses the archive, or "" if there is no archive."""
    found = sorted(FOLDER.glob("spark-*.jsa"))
    return f"-XX:SharedArchiveFile={found[-1]} -Xshare:auto" if found else ""
