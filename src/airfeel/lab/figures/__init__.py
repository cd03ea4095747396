"""The experiments that are shipped, one TOML file each; this module imports none of what computes them."""

import tomllib
from pathlib import Path

_HERE = Path(__file__).parent


def _names(group: str) -> tuple[str, ...]:
    """Return the experiments in a folder of shipped ones; numbered figures come first."""
    names = (path.stem for path in (_HERE / group).glob("*.toml"))
    return tuple(sorted(names, key=lambda name: (not name.startswith("fig"), name)))


PAPER, RIVALS, BENCH = _names("paper"), _names("rivals"), _names("bench")
BEYOND = (*_names("beyond"), *RIVALS, *BENCH)
SHIPPED = (*PAPER, *BEYOND)
GROUPS = {"all": PAPER, "rivals": RIVALS, "bench": BENCH}  # words that stand for several


def shipped_file(name: str) -> Path:
    """Return the file of a shipped experiment."""
    return next(_HERE.glob(f"*/{name}.toml"))


def title(name: str) -> str:
    """Return the title of a shipped experiment."""
    return str(tomllib.loads(shipped_file(name).read_text())["title"])
