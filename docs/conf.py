"""Settings of the documentation."""

import inspect

import airfeel

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

exclude_patterns = ["_build", "results/tables"]
html_theme = "furo"
html_title = "airfeel"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {"source_edit_link": "", "top_of_page_buttons": []}


def setup(app):
    """Show the operators' own parameters, which scipy's ``LinearOperator.__new__`` hides."""
    app.connect("autodoc-process-signature", _own_parameters)


def _own_parameters(app, what, name, item, options, signature, returns):
    if what == "class" and signature == "(*args, **kwargs)":
        _, *parameters = inspect.signature(item.__init__).parameters.values()
        plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
        return str(inspect.Signature(plain)), returns
    return None
