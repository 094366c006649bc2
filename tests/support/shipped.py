"""The contracts of this repository."""

from pathlib import Path

ASSETS = Path(__file__).parents[2] / "assets"
