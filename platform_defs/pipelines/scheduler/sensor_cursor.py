"""The memory of the lag sensor, for the run that it has started: since when each pipeline has been waiting."""

from dagster import DagsterInstance, DagsterRun
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import SensorInstigatorData
from dagster._core.storage.tags import SENSOR_NAME_TAG

from platform_defs.dagster.keys import LAG_SENSOR
from platform_defs.dagster.runs import location_of
from platform_defs.pipelines.scheduler.waiting import Waits, from_cursor


def sensor_waits(instance: DagsterInstance, run: DagsterRun) -> Waits:
    """Return the memory as of the last tick of the sensor that started the run; empty if it has had none. Another code
    location may have a sensor of the same name.
    """
    location = location_of(run)
    if location is None:  # not started by a daemon
        return {}
    name = run.tags.get(SENSOR_NAME_TAG, LAG_SENSOR)
    for state in instance.all_instigator_state(repository_selector_id=location, instigator_type=InstigatorType.SENSOR):
        if state.instigator_name == name and isinstance(state.instigator_data, SensorInstigatorData):
            return from_cursor(state.instigator_data.cursor)
    return {}
