"""The check in Dagster that messages of all registered schemas become rows."""
