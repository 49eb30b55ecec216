"""Sphinx settings; `make docs` builds with warnings as errors."""

from pathlib import Path

import nodemanager

project = "nodemanager"
author = "the nodemanager maintainers"
copyright = "the nodemanager maintainers"
version = release = nodemanager.__version__

extensions = ["sphinx_click"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_title = f"nodemanager {release}"
# Log lines and INI files are shown as they are.
highlight_language = "none"
pygments_style = "default"

# The same sources; the names of the documents stand for no file a reader of man has.
man_pages = [
    ("cli", "nodemanager", "keep cloud nodes and their records in step", [author], 1),
    ("options", "nodemanager.cfg", "configuration of nodemanager", [author], 5),
]
