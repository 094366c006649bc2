"""The code location of this clone: the contracts of `assets/`, the resources of `resources/`, and what is in `defs/`.

It is not part of the wheel. Other projects call `tidegate.definitions()` instead, which can be merged with any
definitions; here jobs, sensors and schedules keep the short names that running deployments know.
"""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from platform_defs import code_location
from platform_defs.dagster.jobs import EXECUTOR
from platform_defs.settings.project import ASSETS
from platform_defs.settings.settings import settings
from resources import RESOURCES

CLONE = Path(__file__).parents[1]
DEFS = CLONE / "defs"


def load(written: Sequence[dg.AssetsDefinition] = ()) -> dg.Definitions:
    """Return everything in this clone, whatever the working directory is, with the contracts of TIDEGATE_CONTRACTS if
    that is set. `written`: topics that Dagster writes (tidegate.topic_asset).
    """
    loaded = code_location.load(settings().contracts or CLONE / ASSETS, written)
    # An empty folder is not loaded: that imports every package with components, which takes as long as all the rest.
    scaffolded = any(path.suffix in (".py", ".yaml") and path.name != "__init__.py" for path in DEFS.rglob("*"))
    own = [dg.load_from_defs_folder(path_within_project=CLONE)] if scaffolded else []
    return dg.Definitions.merge(loaded, dg.Definitions(resources=RESOURCES, executor=EXECUTOR), *own)


defs = load()
