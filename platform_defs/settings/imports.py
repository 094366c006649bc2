"""Cheaper imports of large packages."""

import gc
import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """Turn off garbage collection of cycles inside, in every thread: an import makes hundreds of thousands of objects
    that all stay, and each collection walks through them again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def import_at_first_use(name: str) -> None:
    """Make `from package import module` yield a module that is executed at the first access to an attribute.

    `name`: package.module. Does nothing if it is imported already. Raises ModuleNotFoundError without the package.
    """
    if name in sys.modules or (spec := importlib.util.find_spec(name)) is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    package, _, attribute = name.rpartition(".")
    setattr(sys.modules[package], attribute, module)  # or the package asks the module for its own specification
