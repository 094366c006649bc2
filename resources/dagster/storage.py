"""The former module of these classes, which dagster.yaml files of 0.2 name. Name platform_defs.dagster.storage."""

from platform_defs.dagster.storage import Artifacts, Logs, Storage

__all__ = ["Artifacts", "Logs", "Storage"]
