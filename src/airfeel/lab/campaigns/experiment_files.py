"""Where experiments come from: files of anybody's, and those that are shipped with the package, by name.

A file can start from a shipped one (``like = "fig7"``) and say only what is different.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airfeel.config import mistakes
from airfeel.lab.campaigns.plan import Experiment
from airfeel.lab.runs import files

PAPER = ("fig2", "fig5a", "fig5b", "fig6", "fig7", "fig8", "state-evolution", "recovery", "cost", "bound")
RIVALS = tuple(f"rivals-{name}" for name in ("softmax", "softmax-own", "mlp", "mlp-own", "cnn", "cnn-own"))
BEYOND = ("demo", "tuned", "rates", "fading", "cell", "fashion", "models", "cifar", *RIVALS, "rivals-cifar")
SHIPPED = (*PAPER, *BEYOND)
GROUPS = {"all": PAPER, "rivals": RIVALS}  # words that stand for several


def read_experiment(path: Path) -> Experiment:
    """Read and check an experiment file; its name, where the file gives none, is that of the file.

    Raises
    ------
    ValueError
        With one sentence per mistake.
    """
    tree = {"name": path.stem, "title": path.stem, **_read(path)}
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        raise ValueError(mistakes.sentences(error, Experiment, tree, str(path), {})) from None


def shipped(name: str) -> Experiment:
    """Return one of the experiments that come with the package."""
    if name not in SHIPPED:
        known = ", ".join((*SHIPPED, *GROUPS))
        raise ValueError(f"NAME = {name!r}: must be one of {known}")
    with _shipped_file(name) as path:
        return read_experiment(path)


def _shipped_file(name: str) -> AbstractContextManager[Path]:
    return resources.as_file(resources.files("airfeel.lab") / "figures" / f"{name}.toml")


def _read(path: Path) -> dict[str, Any]:
    """Return what an experiment file says, over what the shipped one says that it is like."""
    try:
        tree = files.parse_toml(files.read_bytes(path, files.SETTINGS))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read as an experiment file ({error.strerror})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if "like" not in tree:
        return tree
    model = tree.pop("like")
    if model not in SHIPPED:
        raise ValueError(f"{path}: like = {model!r}: must be one of {', '.join(SHIPPED)}")
    with _shipped_file(model) as model_path:
        return _over(_read(model_path), tree)


def _over(model: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """Put an experiment over another: keys of ``base`` and of curves one by one, everything else whole."""
    replaced = {"grid", "variants"} if "grid" in tree or "variants" in tree else set()
    found = {key: value for key, value in model.items() if key not in replaced} | tree
    if isinstance(tree.get("base"), dict):
        found["base"] = mistakes.merge(model.get("base", {}), tree["base"])
    own = tree.get("curves", [])
    if isinstance(own, list) and all(isinstance(curve, dict) for curve in own):
        curves = {curve["label"]: curve for curve in model.get("curves", [])}
        for place, curve in enumerate(own):
            label = curve.get("label")
            label = label if isinstance(label, str) else place  # refused when all is checked
            curves[label] = mistakes.merge(curves.get(label, {}), curve)
        found["curves"] = list(curves.values())
    return found


def select(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments called by name, each once; ``all`` and ``rivals`` stand for several."""
    wanted = [name for word in names for name in GROUPS.get(word, (word,))]
    return [shipped(name) for name in dict.fromkeys(wanted)]
