"""Read a configuration: from a TOML file, with overrides, or from the folder of a run.

Everything that is misspelt, of the wrong type or out of range is refused, all mistakes at once.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airfeel import _checks, _files
from airfeel.config import mistakes
from airfeel.config.parts import SEAMS, choose
from airfeel.config.schema import Config, config_class
from airfeel.registry import DATASETS

_log = logging.getLogger("airfeel")

_NAMES = {"dataset": DATASETS} | {seam.key: seam.registry for seam in SEAMS.values()}
_TOO_DEEP = "lists or tables in one another, deeper than in any configuration"


def load_config(path: str | Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read, complete and check a configuration.

    Parameters
    ----------
    path
        A TOML file; None starts from the defaults (TSA-GA on MNIST).
    overrides
        Values by dotted key, such as ``{"uplink.ratio": 0.04}``; they win over the file.

    Raises
    ------
    ValueError
        With one sentence per mistake: file, key, value, rule and, for an unknown key, the nearest valid one.
    """
    tree = {} if path is None else _read(Path(path))
    source = "default configuration" if path is None else str(path)
    return build_config(tree, overrides, source)


def build_config(
    tree: Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    source: str = "configuration",
) -> Config:
    """Complete and check a configuration given as nested dictionaries; ``source`` names it in errors."""
    try:
        return _build(dict(tree), dict(overrides or {}), source)
    except RecursionError:
        raise ValueError(f"{source}: {_TOO_DEEP}") from None


def _build(tree: dict[str, Any], overrides: Mapping[str, Any], source: str) -> Config:
    for key, value in overrides.items():
        _put(tree, key, value)
    chosen, wrong = choose(tree)
    lines = [mistakes.sentence(key, value, rule, source, overrides) for key, (value, rule) in wrong.items()]
    try:
        checked = dict(tree) if not wrong else _without(tree, wrong)
        config = config_class(chosen).model_validate(checked)
    except ValidationError as error:
        lines.append(mistakes.sentences(error, config_class(chosen), tree, source, overrides))
    if lines:
        raise ValueError("\n".join(lines)) from None
    return config


def read_config(path: str | Path) -> Config:
    """Return the configuration of a run as far as it can be told from its file with airfeel's own parts.

    Nothing is imported, called or opened because a file names it: defaults stand for all other parts and
    data, and options that name files are left out, as are keys that nobody reads then.
    """
    flat = mistakes.flatten(_read(Path(path)))
    named = {key: flat[key] for key, registry in _NAMES.items() if registry.is_built_in(flat.get(key))}
    for seam in SEAMS.values():
        if seam.key in flat.keys() - named.keys():
            rule = f"is not loaded because a file names it, and {seam.default!r} stands for it"
            _log.warning(f"{path}: {seam.key} = {_checks.shown(flat[seam.key])} {rule}")
    chosen, _ = choose(mistakes.nest(named))
    others = {key for key, (name, _, _) in chosen.others.items() if name != "scheme"}
    left_out = others.union(chosen.files, _NAMES)
    fields = mistakes.fields(config_class(chosen)).items()
    known = {key for key, field in fields if not mistakes.is_section(field)} - left_out
    kept = {key: value for key, value in flat.items() if key in known}
    return build_config(mistakes.nest(kept | named), source=str(path))


def parse_override(text: str) -> tuple[str, Any]:
    """Split ``key=value``; the value is read as TOML, and as plain text where it is not TOML.

    >>> parse_override("uplink.ratio=0.04"), parse_override("scheme=a_dsgd")
    (('uplink.ratio', 0.04), ('scheme', 'a_dsgd'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--set {text!r}: must have the form key=value, such as uplink.ratio=0.04")
    try:
        return key.strip(), _files.parse_toml(f"value = {value}")["value"]
    except ValueError as error:  # no TOML, or a whole number too long for Python to read
        if isinstance(error.__context__, RecursionError):
            raise ValueError(f"--set {key.strip()}: {_TOO_DEEP}") from None
        return key.strip(), value.strip()


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return _files.parse_toml(_files.read_bytes(path, _files.SETTINGS))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read as a configuration file ({error.strerror})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key in a nested dictionary."""
    *sections, leaf = key.split(".")
    for section in sections:
        inner = tree.get(section)
        tree[section] = dict(inner) if isinstance(inner, Mapping) else {}
        tree = tree[section]
    tree[leaf] = value


def _without(tree: Mapping[str, Any], wrong: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree without the keys whose mistakes are already told."""
    return mistakes.nest({key: value for key, value in mistakes.flatten(tree).items() if key not in wrong})
