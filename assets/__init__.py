"""The domains: a folder each, with `contract.yaml` and, if wanted, `transform.py`. To add a topic, add a folder."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame

from platform_defs.contract.odcs import check_fits_without_transform, load
from platform_defs.contract.pipeline import Pipeline
from platform_defs.errors import BadInput

HERE = Path(__file__).parent


def find_pipelines(folder: Path = HERE) -> list[Pipeline]:
    """Every domain's pipeline, by name. Raises BadInput for a contract with a mistake, or two of the same name or
    table.
    """
    found = [_pipeline(path) for path in sorted(folder.glob("*/contract.yaml"))]
    owners: dict[str, Pipeline] = {}
    for pipeline in found:
        for name in (pipeline.name, *(table.name for table in pipeline.contract.tables)):
            other = owners.setdefault(name, pipeline)
            if other is not pipeline:
                raise BadInput(f"{name} is already that of {other.contract.path}", file=str(pipeline.contract.path))
    return found


def find_pipeline(name: str) -> Pipeline:
    """The pipeline called `name`. Raises BadInput, listing the ones there are."""
    pipelines = {pipeline.name: pipeline for pipeline in find_pipelines()}
    if name not in pipelines:
        raise BadInput(f"there is no pipeline {name}; there are {', '.join(pipelines)}")
    return pipelines[name]


def _pipeline(path: Path) -> Pipeline:
    contract, beside = load(path), path.parent / "transform.py"
    if not beside.exists():
        check_fits_without_transform(contract)
        return Pipeline(contract)
    if contract.row_table.disposition == "upsert":
        raise BadInput(
            "an upsert takes no transform: a tombstone has no fields to transform, and one key is one row. "
            "Make a downstream asset of it",
            file=str(beside),
        )
    return Pipeline(contract, _transform(beside))


def _transform(path: Path) -> Callable[[DataFrame], DataFrame]:
    """The function `transform` of the file; imported under the domain's name, so that Spark's workers find it too."""
    spec = importlib.util.spec_from_file_location(f"{__name__}.{path.parent.name}.transform", path)
    module = importlib.util.module_from_spec(spec)  # pyright: ignore[reportArgumentType]  # the file exists
    spec.loader.exec_module(module)  # pyright: ignore[reportOptionalMemberAccess]
    if not callable(getattr(module, "transform", None)):
        raise BadInput("there is no function transform(messages: DataFrame) -> DataFrame", file=str(path))
    return module.transform
