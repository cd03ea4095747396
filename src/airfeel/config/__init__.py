"""The configuration of a run: from a TOML file or a dictionary, with overrides, or from the folder of a run.

Everything that is misspelt, of the wrong type or out of range is refused, all mistakes at once.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from airfeel import _checks, _files
from airfeel.config import mistakes
from airfeel.config.parts import choose
from airfeel.config.schema import Config as Config
from airfeel.config.schema import config_class
from airfeel.registry import DATASETS, SEAMS

ConfigLike = Config | Mapping[str, Any] | str | Path

_log = logging.getLogger("airfeel")

_NAMED = {registry.key: registry for registry in (DATASETS, *SEAMS.values())}
_TOO_DEEP = "lists or tables in one another, deeper than in any configuration"


def load_config(config: ConfigLike | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read, complete and check a configuration.

    >>> load_config({"scheme": "scheduled", "uplink.ratio": 0.04}).uplink.ratio
    0.04

    Parameters
    ----------
    config
        A TOML file; a dictionary of dotted keys, of tables, or both; or a configuration, of which only the
        keys that it was given are taken. None starts from the defaults (our own scheme on MNIST).
    overrides
        A dictionary of the same kind; its keys win.

    Raises
    ------
    ValueError
        With one sentence per mistake: file, key, value, rule and, for an unknown key, the nearest valid one.
    """
    tree, source = opened(config)
    return build_config(tree, overrides, source)


def opened(config: ConfigLike | None) -> tuple[Mapping[str, Any], str]:
    """Return the keys that are given, and what errors call them."""
    if config is None:
        return {}, "default configuration"
    if isinstance(config, str | Path):
        return read_toml(Path(config)), str(config)
    if isinstance(config, Config):
        config = config.model_dump(exclude_unset=True)
    if not isinstance(config, Mapping):
        rule = "must be a Config, a dictionary of its keys, or the path of a TOML file"
        raise _checks.reject("config", config, rule)
    return config, "configuration"


def build_config(
    tree: Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    source: str = "configuration",
    by: str = "--set",
) -> Config:
    """Complete and check a dictionary of keys; errors call it ``source``, and the overrides ``by``."""
    overrides, merged = overrides or {}, dict[str, Any]()
    origins = dict.fromkeys(map(str, overrides), by)
    try:
        for key, value in [*tree.items(), *overrides.items()]:
            # A text in the place of a part's table is the part's name: channel = "fading".
            key = f"{key}.kind" if isinstance(value, str) and f"{key}.kind" in _NAMED else str(key)
            merged = mistakes.merge(merged, mistakes.nest({key: value}))
        chosen, wrong = choose(merged)
        lines = [mistakes.sentence(key, value, rule, source, origins) for key, (value, rule) in wrong.items()]
        # Without the keys whose mistakes are told already.
        flat = {key: value for key, value in mistakes.flatten(merged).items() if key not in wrong}
        config = config_class(chosen).model_validate(mistakes.nest(flat) if wrong else merged)
    except ValidationError as error:
        lines.append(mistakes.sentences(error, config_class(chosen), merged, source, origins))
    except RecursionError:
        raise ValueError(f"{source}: {_TOO_DEEP}") from None
    if lines:
        raise ValueError("\n".join(lines)) from None
    return config


def read_config(path: str | Path) -> Config:
    """Return the configuration of a run as far as it can be told from its file with airfeel's own parts.

    Nothing is imported, called or opened because a file names it: defaults stand for all other parts and
    data, and options that name files are left out, as are keys that nobody reads then.
    """
    flat = mistakes.flatten(read_toml(Path(path)))
    named = {key: flat[key] for key, registry in _NAMED.items() if registry.is_built_in(flat.get(key))}
    for registry in SEAMS.values():
        if registry.key in flat.keys() - named.keys():
            rule = f"is not loaded because a file names it, and {registry.default!r} stands for it"
            _log.warning(f"{path}: {registry.key} = {_checks.shown(flat[registry.key])} {rule}")
    chosen, _ = choose(mistakes.nest(named))
    left_out = chosen.refused.union(chosen.listed("reads"), chosen.listed("writes"), _NAMED)
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


def read_toml(path: Path, what: str = "a configuration") -> dict[str, Any]:
    """Return the content of a TOML file; errors say what it should be."""
    try:
        return _files.parse_toml(_files.read_bytes(path, _files.SETTINGS))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read as {what} file ({error.strerror})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
