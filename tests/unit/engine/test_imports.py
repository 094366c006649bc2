"""A module that is imported at its first use is the real one, and its users see no difference."""

import subprocess
import sys

LATER = """
import sys
from platform_defs.engine.commit.auditor import import_at_first_use
import_at_first_use("xml.dom.minidom")
from xml.dom import minidom
assert type(minidom).__name__ == "_LazyModule", type(minidom)
assert minidom.parseString("<a>b</a>").documentElement.tagName == "a"
assert type(minidom).__name__ == "module", type(minidom)
"""


def test_a_module_is_executed_at_its_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
