"""The JVM option that uses the class archive which archive.py makes."""

import sys
from pathlib import Path

FOLDER = Path(sys.prefix) / "share" / "tidegate"  # of the environment, for whose jars and Java the archive is


def java_options() -> str:
    """The JVM option that uses the archive, or none where there is no archive."""
    found = sorted(FOLDER.glob("spark-*.jsa"))
    return f"-XX:SharedArchiveFile={found[-1]} -Xshare:auto" if found else ""
