"""Settings of Sphinx. Neither the build (`make docs`) nor a built page uses the network."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

project = "postshift"
author = "The postshift contributors"
copyright = author
release = version = version_of("postshift")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "code"
smartquotes = False  # "auto" in the type of a parameter is code

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
myst_update_mathjax = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings give the types, in words
autodoc_default_options = {"members": True}
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # types are words, not links
napoleon_use_ivar = True
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "postshift"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["postshift.css"]
html_sidebars = {page: [] for page in ("start", "situations", "gallery", "glossary")}  # they have no pages below them
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # summaries are fetched; browsers refuse that for pages opened from a disk
html_context = {"default_mode": "auto"}  # light or dark, as on the reader's system
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 9,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

_logger = logging.getLogger(__name__)


def _mathml(source: str, node: nodes.Node, *, block: bool) -> str:
    """Return a formula as MathML, which browsers draw themselves; warn if docutils cannot read it."""
    try:
        return str(tex2mathml(source, as_block=block))
    except MathError as error:
        _logger.warning("formula %r: %s", source, error, location=node)
        return ""


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_mathml(node.astext(), node, block=False))
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    formula = _mathml(node.astext(), node, block=True)
    label = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    self.body.append(f'<div class="math-block" tabindex="0"{label}>{number}{formula}</div>\n')
    raise nodes.SkipNode


def _skip(_app: Sphinx, _what: str, name: str, *_about: object) -> bool | None:
    """Leave out the setters of metadata requests: scikit-learn makes and documents them."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _list_names(_app: Sphinx, what: str, _name: str, obj: Any, _options: object, lines: list[str]) -> None:
    """Put a table of the public names at the top of a module."""
    if what == "module" and hasattr(obj, "__all__"):
        lines += ["", ".. autosummary::", "   :nosignatures:", "", *(f"   {public}" for public in obj.__all__), ""]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer of formulas and the changes to the reference."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _list_names)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
