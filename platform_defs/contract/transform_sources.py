"""The Python files that decide what a transform does: its own, and what it imports from the project, in turn.

Found by reading import statements, not by running them. Modules that are imported by a computed name, libraries, and
Tidegate's own modules are not among them.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from platform_defs.contract.pipeline import Pipeline

_CATALOGUE = Path("assets/__init__.py")  # Tidegate's own, as are its two folders: its version covers them
_TIDEGATES = {"platform_defs", "resources"}  # in the project's root only: a domain may have such a folder too
_LIBRARIES = {"site-packages", "dist-packages"}  # wherever they are

# CPython 3.11 counts the depth of a syntax tree for all threads together: where a finalizer lets another thread parse
# in between, both fail with a SystemError (https://github.com/python/cpython/issues/106905).
_parsing = Lock()


def transform_sources(pipeline: Pipeline) -> dict[str, bytes]:
    """The files' contents by their path in the project; empty without a transform."""
    own = inspect.getsourcefile(inspect.unwrap(pipeline.transform)) if pipeline.transform else None
    if own is None:
        return {}
    path = Path(own).resolve()
    contract = pipeline.contract.path
    root = contract.resolve().parents[2] if contract and len(contract.resolve().parents) > 2 else path.parent
    if not path.is_relative_to(root):
        root = path.parent
    found = dict[Path, bytes]()
    _collect(path, root, found)
    return {str(file.relative_to(root)): found[file] for file in sorted(found)}


def _collect(path: Path, root: Path, found: dict[Path, bytes]) -> None:
    if path in found:
        return
    found[path] = path.read_bytes()
    for module in _imported(found[path], path, root):
        for file in _files(module, root):
            _collect(file, root, found)


def _imported(source: bytes, path: Path, root: Path) -> Iterator[tuple[str, ...]]:
    """The modules that the source imports, and names in them that may be modules: `from a import b` is a and a.b."""
    try:
        with _parsing:
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # changed since it was imported; its content is in the fingerprint all the same
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = (*_package(path, root, node.level), *(node.module.split(".") if node.module else ()))
            yield module
            yield from ((*module, alias.name) for alias in node.names)


def _package(path: Path, root: Path, level: int) -> tuple[str, ...]:
    """The package that a relative import of so many dots begins at; none for an absolute one."""
    parts = path.parent.relative_to(root).parts
    return parts[: len(parts) - level + 1] if level else ()


def _files(module: tuple[str, ...], root: Path) -> Iterator[Path]:
    """The module's file, and those of the packages around it, where they are part of the project."""
    for depth in range(1, len(module) + 1):
        folder = root.joinpath(*module[:depth])
        for file in (folder / "__init__.py", folder.with_suffix(".py")):
            inside = file.relative_to(root)
            if _is_the_projects(inside) and file.is_file():
                yield file


def _is_the_projects(inside: Path) -> bool:
    return inside != _CATALOGUE and inside.parts[0] not in _TIDEGATES and _LIBRARIES.isdisjoint(inside.parts)
