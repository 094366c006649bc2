"""The site that `make docs` builds from these pages. Why Sphinx: decisions/0014-docs-site.md."""

from importlib.metadata import version as _version

project = "Tidegate"
version = release = _version("tidegate")
copyright = "the Tidegate authors"

extensions = ["myst_parser"]
myst_heading_anchors = 4  # a link to a heading works here as it does on GitHub
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["README.md"]  # index.rst includes it; on GitHub it is the folder's own page
nitpicky = True

html_theme = "furo"
html_title = "Tidegate"
html_copy_source = False
