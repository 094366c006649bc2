"""Findings about this machine: Java, Spark, disk."""

from platform_defs.doctor.findings.finding import Finding, Subject

SPARK_SCHEME = "spark://"  # of the masters that are checked
SPACE = 2_000_000_000  # bytes of disk: Spark's scratch space and the embedded servers' logs grow within hours


def java(version: int, path: str, oldest: int) -> Finding:
    """Return the finding about the Java on the PATH or in JAVA_HOME, for Spark's driver and the embedded servers."""
    if version >= oldest:
        return Subject("java", path).well(f"Java {version} ({path}).")
    return Subject("java", path).error(
        f"{path} is Java {version}; Spark needs Java {oldest} or newer.",
        f"Install Java {oldest} or newer, and put it on the PATH or in JAVA_HOME.",
    )


def spark(version: str, master: str | None = None, problem: str | None = None) -> Finding:
    """Return the finding about Spark, where batches run. `problem`: why the master cannot be reached."""
    if master is None:
        return Subject("spark", "local").well(f"Spark {version} runs inside each run's own process.")
    if problem is not None:
        return Subject("spark", master).error(
            f"TIDEGATE_SPARK_MASTER is {master}, which cannot be reached ({problem}).",
            "Start the master, correct TIDEGATE_SPARK_MASTER, or unset it: Spark then runs inside each run's own "
            "process.",
        )
    tried = master.startswith(SPARK_SCHEME)
    message = "accepts connections" if tried else f"was not checked: only {SPARK_SCHEME} addresses are"
    return Subject("spark", master).well(f"Spark {version}; the master {master} {message}.")


def disk(folder: str, free: int) -> Finding:
    """Return the finding about the disk of TIDEGATE_HOME."""
    if free >= SPACE:
        return Subject("disk", folder).well(f"The disk that holds {folder} has {free / 1e9:,.0f} GB left.")
    return Subject("disk", folder).warning(
        f"The disk that holds {folder} has {free / 1e6:,.0f} MB left: Spark and the embedded servers stop when it "
        "is full.",
        "Free some space, or set TIDEGATE_HOME to a folder on another disk.",
    )
