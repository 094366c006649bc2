"""Findings about this machine: Java, Spark, disk."""

from dataclasses import dataclass

from platform_defs.doctor.findings.finding import Finding, error, warning, well

SPACE = 2_000_000_000  # bytes of disk: Spark's scratch space and the embedded servers' logs grow within hours


@dataclass(frozen=True)
class SparkLook:
    """The state of Spark. `master`: None if it runs inside each run; `problem`: None if the master can be reached."""

    version: str
    master: str | None = None
    problem: str | None = None
    tried: bool = True


def java(version: int, path: str, oldest: int) -> Finding:
    """Return the finding about the Java on the PATH or in JAVA_HOME, for Spark's driver and the embedded servers."""
    if version >= oldest:
        return well("java", path, f"Java {version} ({path}).")
    return error(
        "java",
        path,
        f"{path} is Java {version}; Spark needs Java {oldest} or newer.",
        f"Install Java {oldest} or newer, and put it on the PATH or in JAVA_HOME.",
    )


def spark(look: SparkLook) -> Finding:
    """Return the finding about Spark, where batches run."""
    if look.master is None:
        return well("spark", "local", f"Spark {look.version} runs inside each run's own process.")
    if look.problem is not None:
        return error(
            "spark",
            look.master,
            f"TIDEGATE_SPARK_MASTER is {look.master}, which cannot be reached ({look.problem}).",
            "Start the master, correct TIDEGATE_SPARK_MASTER, or unset it: Spark then runs inside each run's own "
            "process.",
        )
    message = "accepts connections" if look.tried else "was not checked: only spark:// addresses are"
    return well("spark", look.master, f"Spark {look.version}; the master {look.master} {message}.")


def disk(folder: str, free: int) -> Finding:
    """Return the finding about the disk of TIDEGATE_HOME."""
    if free >= SPACE:
        return well("disk", folder, f"The disk that holds {folder} has {free / 1e9:,.0f} GB left.")
    return warning(
        "disk",
        folder,
        f"The disk that holds {folder} has {free / 1e6:,.0f} MB left: Spark and the embedded servers stop when it "
        "is full.",
        "Free some space, or set TIDEGATE_HOME to a folder on another disk.",
    )
