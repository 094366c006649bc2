"""Spark for `tidegate doctor`: its version, and whether the master accepts connections. Starts no JVM."""

import time
from importlib.metadata import version

from platform_defs.doctor.findings.addresses import parsed
from platform_defs.doctor.findings.machine import SparkLook
from platform_defs.doctor.probes.connection import connected, resolve
from platform_defs.doctor.probes.conversation import Stopped

SCHEME = "spark://"


def look(master: str | None, seconds: float = 3.0) -> SparkLook:
    """Return Spark's version, and whether `master` accepts connections (spark://host:7077,host:7077, say)."""
    installed = version("pyspark")
    if master is None:
        return SparkLook(installed)
    if not master.startswith(SCHEME):
        return SparkLook(installed, master, tried=False)
    problems = [_problem(one, time.monotonic() + seconds) for one in master.removeprefix(SCHEME).split(",")]
    return SparkLook(installed, master, None if None in problems else problems[0])


def _problem(text: str, deadline: float) -> str | None:
    """Return why no connection can be made; None if one can."""
    if (address := parsed(text)) is None:
        return f"{text} is not an address like spark.example.com:7077"
    try:
        with connected(resolve(address, deadline), deadline):
            return None
    except Stopped as stopped:
        return stopped.trouble.error
