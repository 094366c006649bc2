"""The resources of this code location, for assets of your own in it."""

from platform_defs.code_location import RESOURCES as TIDEGATES

RESOURCES = {"spark": TIDEGATES["tidegate_spark"], "kafka_producer": TIDEGATES["tidegate_kafka_producer"]}
