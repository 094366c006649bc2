"""Google's compiler of Protobuf schemas, in a process apart: limited in time and memory, and without our secrets.

The process runs this file. Its limits are the kernel's (setrlimit(2)): seconds of CPU are the schema's doing however
busy the machine is, and what is allocated is refused, instead of the machine running out of memory.
"""

import os
import resource
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

CPU_SECONDS = 30  # a schema of 1 MB takes about one
MEMORY = 2_000_000_000  # bytes of address space
OUTPUT = 256_000_000  # bytes of a file
REFUSED = 3  # the status with which the compiler ends that ran and refused; Python ends with 1 where it did not run
NO_MEMORY = 4  # the status with which it ends if memory ran out after its limits were set
WAIT = 300.0  # seconds by the clock: only a machine that hangs needs as many
_PASSED_ON = ("PATH", "HOME", "TMPDIR", "LANG", "LC_", "LD_", "DYLD_", "PYTHON", "VIRTUAL_ENV")  # what Python needs


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the compiler with these arguments, and return once it has ended. Raises Retryable if it did not in time."""
    command = [sys.executable, "-m", __name__, str(CPU_SECONDS), str(MEMORY), *arguments]
    given = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    given["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        return subprocess.run(
            command, capture_output=True, check=False, encoding="utf-8", errors="replace", env=given, timeout=WAIT
        )
    except subprocess.TimeoutExpired:
        from platform_defs.errors import Retryable  # the process that runs this file starts in half the time without it

        raise Retryable(f"the Protobuf compiler did not finish within {WAIT:.0f} s") from None


def limit_reached(status: int, stderr: str) -> str | None:
    """Return the limit that a schema's compiler reached; None if it ended in another way."""
    if status == -signal.SIGXCPU:
        return f"{CPU_SECONDS} s of CPU time"
    if status == -signal.SIGXFSZ:
        return f"{OUTPUT:,} bytes for its output"
    if status == NO_MEMORY or (status == -signal.SIGABRT and "bad_alloc" in stderr):
        return f"{MEMORY:,} bytes of memory"
    return None


def _limit(cpu_seconds: int, memory: int) -> None:
    limits = {
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: OUTPUT,
        resource.RLIMIT_CORE: 0,
    }
    for which, most in limits.items():
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):  # macOS knows no limit of address space
            resource.setrlimit(which, (most, hard))


if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores
    # Before the limits, so that a failure to load is not blamed on the schema.
    import_module("grpc_tools._protoc_compiler")
    _limit(int(sys.argv.pop(1)), int(sys.argv.pop(1)))
    try:
        runpy.run_module("grpc_tools.protoc", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        sys.exit(REFUSED if ended.code else 0)
    except MemoryError:
        sys.exit(NO_MEMORY)
