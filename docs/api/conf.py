"""The reference of the Python module, from its docstrings: `make python-docs`."""

import lycaon

project = "lycaon"
version = release = lycaon.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary"]
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"
html_theme = "alabaster"
html_theme_options = {"description": "Collective communication", "page_width": "1080px"}
html_show_copyright = False
html_static_path: list[str] = []
