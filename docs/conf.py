"""Configuration of the documentation site: ``make docs``. Nothing is downloaded."""

from __future__ import annotations

import os
import warnings

from spherepair import __version__

os.environ.setdefault("OMP_NUM_THREADS", "2")

project = "spherepair"
author = "The spherepair developers"
copyright = "The spherepair developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.githubpages",
    "sphinx.ext.viewcode",
]
# Running the gallery takes a minute; the test of links and references builds the site without it.
if not os.environ.get("SPHEREPAIR_DOCS_NO_GALLERY"):
    extensions.append("sphinx_gallery.gen_gallery")

exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/README.*"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "smartquotes"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "spherepair"
html_static_path = ["_static"]
html_css_files = ["spherepair.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "spherepair"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"faq": [], "gallery/**": []}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1,
    "matplotlib_animations": False,
    "plot_gallery": "SPHEREPAIR_SKIP_GALLERY" not in os.environ,
    "write_computation_times": False,
}


def skip_member(app, what, name, thing, *_):
    """Leave out what comes from scikit-learn: its docstrings link into its own site."""
    method = name.rpartition(".")[2]
    is_generated = method.startswith("set_") and method.endswith("_request")
    is_foreign = str(getattr(thing, "__module__", "")).startswith("sklearn.")
    return True if is_generated or is_foreign else None


def setup(app):
    app.connect("autodoc-skip-member", skip_member)


# Examples say what few pairs cost; in the gallery that would be noise.
warnings.filterwarnings("ignore", message="only .* constraints were given")
