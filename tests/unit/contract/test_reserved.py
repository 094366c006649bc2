"""A contract cannot take a name that Dagster refuses or gives to something else."""

import dagster as dg
import pytest
from dagster._core.definitions.utils import DISALLOWED_NAMES

from platform_defs.contract.model import reserved
from platform_defs.definitions import defs


def test_all_words_that_dagster_refuses_are_reserved() -> None:
    assert set(DISALLOWED_NAMES) <= reserved.DAGSTER_WORDS


def test_jobs_sensors_and_schedules_for_all_pipelines_are_reserved() -> None:
    repository = defs.get_repository_def()
    own = {item for item in repository.job_names if not item.startswith("__")}
    schedules = {item.name for item in repository.schedule_defs}
    sensors = {item.name for item in repository.sensor_defs}
    assert own | schedules | sensors
    assert all(reserved.pipeline_mistake(name) for name in own | schedules | sensors)


@pytest.mark.parametrize("table", ["bank.postings", "a_b.c__d", "a__b.c_d"])
def test_a_table_is_called_as_dagster_calls_it(table: str) -> None:
    made = reserved._identifier(table)  # pyright: ignore[reportPrivateUsage]  # the function under test
    assert made == dg.AssetKey(table.split(".")).to_python_identifier()
