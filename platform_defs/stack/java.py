"""The Java that runs the broker: JAVA_HOME if set, else `java` on the PATH; 17 or newer."""

import os
import re
import shutil
import subprocess

from platform_defs.errors import BadInput

OLDEST = 17

REMEDY = (
    f"Install Java {OLDEST} or newer (Debian, Ubuntu: apt install openjdk-21-jre-headless, or openjdk-17-jre-headless "
    "on older ones; macOS: brew install openjdk@21) and put it on the PATH or in JAVA_HOME."
)


def find_java() -> str:
    """Return the path of a `java` of version 17 or newer. Raises BadInput, with what to install, if there is none."""
    if home := os.environ.get("JAVA_HOME"):
        java = shutil.which("java", path=os.path.join(home, "bin"))
        if java is None:
            raise BadInput(f"JAVA_HOME is {home}, which has no bin/java. {REMEDY}")
    elif (java := shutil.which("java")) is None:
        raise BadInput(f"No Java was found; the embedded Kafka needs Java. {REMEDY}")
    version = java_version(java)
    if version < OLDEST:
        raise BadInput(f"{java} is Java {version}; the embedded Kafka needs Java {OLDEST} or newer. {REMEDY}")
    return java


def java_version(java: str) -> int:
    """Return the major version of this `java` (8 for "1.8.0_402"). Raises BadInput if it cannot run or prints none."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"{java} could not be run ({error}). {REMEDY}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None:
        raise BadInput(f"{java} -version printed no version. {REMEDY}")
    return int(found.group(1))
