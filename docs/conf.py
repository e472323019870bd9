"""Settings of the site: `make docs` builds it, offline, with warnings as errors."""

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS)]

# One CPU device a core, one thread each, for the generated pages and the notebooks' kernels.
cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
os.environ.setdefault("NPROC", "1")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", str(cores))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
os.environ["CI"] = "docs"  # no progress bars in the kernels
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.getenv("PYTHONPATH")])])

from jaxelim import __version__  # noqa: E402

project = "jaxelim"
author = "the maintainers of jaxelim"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "house",
]
exclude_patterns = ["figures", "gallery", "**.ipynb_checkpoints"]
nitpicky = True  # a link to a page or a section that leads nowhere is an error
# But names of other packages, of internals and of code in backticks have no page here.
nitpick_ignore_regex = [("py:.*", "(?s:.*)")]
default_role = "py:obj"
highlight_language = "none"

# Notebooks run once for each content; an error in one ends the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / ".cache" / "notebooks")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # the usual ones come from another host

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 72
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"jaxelim {release}"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_favicon = "static/icon.svg"
html_css_files = ["site.css"]
templates_path = []
html_theme_options = {"navigation_with_keys": False}
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
