"""Packages that only an extra installs."""

import importlib.util

from platform_defs.errors import BadInput


def require(package: str, extra: str, instead: str) -> None:
    """Raise BadInput if `package` is not installed: the command that installs its extra, or what to do `instead`."""
    if importlib.util.find_spec(package) is None:
        name = package.replace("_", "-")
        raise BadInput(f"the package {name} is not installed: pip install 'tidegate[{extra}]', or {instead}")
