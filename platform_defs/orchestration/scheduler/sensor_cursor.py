"""The memory of the lag sensor, for the run that it has started: since when each pipeline has been waiting."""

from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.scheduler.instigation import SensorInstigatorData

from platform_defs.orchestration.dagster_runs.keys import LAG_SENSOR
from platform_defs.orchestration.scheduler.waiting import Waits, from_cursor


def sensor_waits(instance: DagsterInstance) -> Waits:
    """Return the memory as of the sensor's last tick; empty if it has had none."""
    for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
        if state.instigator_name == LAG_SENSOR and isinstance(state.instigator_data, SensorInstigatorData):
            return from_cursor(state.instigator_data.cursor)
    return {}
