"""Settings of the site: `bash scripts/docs` builds it."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "cellbridge"
version = release = installed("cellbridge")

extensions = ["myst_parser", "sphinx_copybutton", "site_pages.extension"]
exclude_patterns = ["site_pages"]
source_suffix = {".md": "markdown"}
language = "en"

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 3
myst_links_external_new_tab = False
myst_ref_domains = ["std", "py"]
add_module_names = False
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"  # what is typed, not what is printed

html_theme = "furo"
html_title = "cellbridge"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
