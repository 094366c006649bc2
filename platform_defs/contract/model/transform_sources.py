"""The Python files that decide what a transform does: its own, and those it imports from the project, in turn.

Found by reading import statements, not by running them. Modules that are imported by a computed name, libraries, and
Tidegate's own modules are not among them. They are read when the transform is imported: a process runs the files as
they were then.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from platform_defs.contract.model.contract import Contract
from platform_defs.contract.model.pipeline import Pipeline

_TIDEGATES = {"platform_defs", "tidegate"}  # in a clone: the version covers them. In the root only
_LIBRARIES = {"site-packages", "dist-packages"}  # wherever they are

# CPython 3.11 counts the depth of a syntax tree for all threads together: if a finalizer lets another thread parse
# in between, both fail with a SystemError (https://github.com/python/cpython/issues/106905).
_parsing = Lock()


# Of modules that stay imported, by file: the content when they were first read, before which none was imported.
_first_read = dict[Path, bytes]()


def transform_sources(contract: Contract) -> tuple[tuple[str, bytes], ...]:
    """Return path in the project and content of each file of the transform next to `contract`, sorted by path."""
    assert contract.transform_path is not None  # noqa: S101  # it was read from a file
    path, root = _placed(contract.transform_path)
    found = dict[Path, bytes]()
    imported = {module.__file__ for module in [*sys.modules.values()] if getattr(module, "__file__", None)}
    _collect(path, root, found, imported)
    return tuple((str(file.relative_to(root)), found[file]) for file in sorted(found))


def changed_source(pipeline: Pipeline) -> str | None:
    """Return the path of a file that the transform imports and that has changed since; None without any.

    Spark's Python workers import such files by themselves, whenever they start. They do not read the transform's own
    file: it comes with the job.
    """
    if (own := pipeline.contract.transform_path) is None or not pipeline.sources:
        return None
    path, root = _placed(own)
    for name, content in pipeline.sources:
        try:
            if root / name != path and (root / name).read_bytes() != content:
                return name
        except OSError:  # it is gone, or just being replaced
            return name
    return None


def _placed(transform: Path) -> tuple[Path, Path]:
    """Return the path of the transform, and the project's folder above assets/<domain>/<name>.py.

    Links to a domain or a file are not followed: those of a Kubernetes volume lead to another folder after each change.
    """
    path = transform.absolute()
    if len(path.parents) <= 2:
        return path.resolve(), path.resolve().parent
    contracts = path.parents[1].resolve()
    return contracts / path.parent.name / path.name, contracts.parent


def _collect(path: Path, root: Path, found: dict[Path, bytes], imported: set[str | None]) -> None:
    if path in found:
        return
    read = path.read_bytes()
    found[path] = _first_read.setdefault(path, read) if str(path) in imported else read
    _first_read[path] = found[path]
    for module in _imported(found[path], path, root):
        for file in _files(module, root):
            _collect(file, root, found, imported)


def _imported(source: bytes, path: Path, root: Path) -> Iterator[tuple[str, ...]]:
    """Yield the modules that the source imports, and names in them that may be modules: a.b for `from a import b`."""
    try:
        with _parsing:
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # changed since it was imported; its content is in the fingerprint all the same
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # A relative import begins at the package that so many dots lead to.
            above = path.parent.relative_to(root).parts
            package = above[: len(above) - node.level + 1] if node.level else ()
            module = (*package, *(node.module.split(".") if node.module else ()))
            yield module
            yield from ((*module, alias.name) for alias in node.names)


def _files(module: tuple[str, ...], root: Path) -> Iterator[Path]:
    """Yield the module's file, and those of the packages around it, if they are part of the project."""
    for depth in range(1, len(module) + 1):
        folder = root.joinpath(*module[:depth])
        for file in (folder / "__init__.py", folder.with_suffix(".py")):
            inside = file.relative_to(root)
            own = inside.parts[0] not in _TIDEGATES and _LIBRARIES.isdisjoint(inside.parts)
            if own and file.is_file():
                yield file
