"""Settings of the documentation."""

import inspect
from itertools import groupby

import airfeel
from airfeel.config.parts import keys
from airfeel.config.schema import Config

project = "airfeel"
author = "The airfeel developers"
copyright = "2026, the airfeel developers"
version = release = airfeel.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "numpydoc",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_mock_imports = ["torch", "flwr"]  # extras that the documentation is built without
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

exclude_patterns = ["_build", "results/tables", "results/measured"]
html_theme = "furo"
pygments_dark_style = "github-dark"  # the usual one underlines names of modules, as if they were links
html_title = "airfeel"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {"source_edit_link": "", "top_of_page_buttons": []}


def setup(app):
    """Show the operators' own parameters, which scipy's ``LinearOperator.__new__`` hides."""
    app.connect("autodoc-process-signature", _own_parameters)
    app.connect("source-read", _fill_in_keys)


def _fill_in_keys(app, page, source):
    """Put a table of every key in the place that a page keeps for it."""
    if "<!-- keys -->" in source[0]:
        sections = [_section(table, list(found)) for table, found in groupby(keys(), lambda key: key.table)]
        source[0] = source[0].replace("<!-- keys -->", "\n\n".join(sections))


def _section(table, found):
    """Return the keys of one table of the configuration as a list of definitions."""
    about = inspect.getdoc(Config.model_fields[table].annotation) if table else "Before all tables."
    lines = [f"## `[{table}]`" if table else "## At the top", "", about, ""]
    for key in found:
        head = f"`{key.name}`" + (f" = {_code(key.default)}" if key.default else ", unset")
        readers = f" Read by {', '.join(map(_code, key.readers))}." if key.readers else ""
        words = key.help[1:2].islower() and not key.help.startswith("airfeel")  # and not K_m
        meaning = key.help[0].upper() + key.help[1:] if words else key.help
        lines += [head, f": {meaning.replace('|', chr(92) + '|')}. Must be {_plain(key)}.{readers}", ""]
    return "\n".join(lines)


def _code(text):
    return "; ".join(f"`{part}`" for part in text.split("; "))


def _plain(key):
    """Return the rule in the fewest words: the limits of what a computer can hold are told once."""
    if key.rule == "a name":
        return "one of " + ", ".join(map(_code, key.choices)) + ", or your own"
    rule = key.rule.replace("'", "`").replace(" and <= 1000000000000000", "").replace(" and <= 1e+30", "")
    return rule.replace(">= 1e-30", "> 0").replace("a finite number", "a number")


def _own_parameters(app, what, name, item, options, signature, returns):
    if what == "class" and signature == "(*args, **kwargs)":
        _, *parameters = inspect.signature(item.__init__).parameters.values()
        plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
        return str(inspect.Signature(plain)), returns
    return None
