"""The experiments that are shipped, one TOML file each; this module imports none of what computes them."""

import tomllib
from importlib import resources

_FILES = {file.name.removesuffix(".toml"): file for file in resources.files(__name__).iterdir()}
PAPER = ("fig2", "fig5a", "fig5b", "fig6", "fig7", "fig8", "state-evolution", "recovery", "cost", "bound")
BEYOND = tuple(name for name in sorted(_FILES) if name not in PAPER and _FILES[name].name.endswith(".toml"))
SHIPPED = (*PAPER, *BEYOND)
RIVALS = tuple(name for name in BEYOND if name.startswith("rivals-") and name != "rivals-cifar")
GROUPS = {"all": PAPER, "rivals": RIVALS}  # words that stand for several


def title(name: str) -> str:
    """Return the title of a shipped experiment."""
    return str(tomllib.loads(_FILES[name].read_text())["title"])
