"""The typed configuration of one run.

``load_config`` reads a TOML file, applies overrides, fills in what the scheme decides and refuses everything
that is misspelt, of the wrong type or out of range, all mistakes at once.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from airfeel import _files
from airfeel.config import mistakes, toml
from airfeel.config.schemes import SCHEMES
from airfeel.config.sections import (
    Channel,
    Count,
    Devices,
    Model,
    Partition,
    Receiver,
    Run,
    Section,
    Server,
    Uplink,
)

# What cannot change a result does not belong to a run's identity.
_INCIDENTAL = ("name", "run.checkpoint_every", "run.threads")
# Defaults of the keys that only a fading channel has.
_FADING = {"threshold": 0.3, "rician": 0.0, "csi_error": 0.0, "phase_error": 0.0}


class Config(Section):
    """One run, completely described.

    >>> config = load_config(None, {"scheme": "a_dsgd", "devices.count": 10})
    >>> config.uplink.sparsity, config.devices.count
    (0.05, 10)
    """

    scheme: Literal[tuple(SCHEMES)] = "tsa_ga"  # type: ignore[valid-type]
    """airfeel list names them all"""
    dataset: Annotated[str, Field(min_length=1)] = "mnist"
    """mnist, fashion-mnist, or a folder of idx files"""
    rounds: Count = 300
    """T"""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """decides data, noise, rows and everything else that is random"""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)] | None = None
    """what to call the run; unset: the scheme"""
    devices: Devices = Devices()
    partition: Partition = Partition()
    model: Model = Model()
    uplink: Uplink = Uplink()
    channel: Channel = Channel()
    receiver: Receiver = Receiver()
    server: Server = Server()
    run: Run = Run()

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        return _fill(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for key, value, rule in _contradictions(self):
            raise mistakes.Contradiction(key, value, rule)
        return self

    def identity(self) -> dict[str, Any]:
        """Return the keys that determine the result, by dotted name."""
        ignored = _INCIDENTAL + SCHEMES[self.scheme].ignores
        flat = mistakes.flatten(self.model_dump(mode="json", exclude_none=True))
        return {key: value for key, value in flat.items() if not _covered(key, ignored)}

    def digest(self) -> str:
        """Return a short hash of :meth:`identity`; it names the run's folder."""
        text = json.dumps(self.identity(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def label(self) -> str:
        """Return ``<name>-<hash>``, the name of the run's folder."""
        return f"{self.name or self.scheme}-{self.digest()}"

    def to_toml(self) -> str:
        """Return the resolved configuration as TOML; comments explain the keys and name those not read."""
        notes = {key: field.description or "" for key, field in mistakes.fields(Config).items()}
        ignored = SCHEMES[self.scheme].ignores
        unread = {key: f"not read by {self.scheme}" for key in notes if _covered(key, ignored)}
        return toml.dumps(self.model_dump(mode="json"), notes | unread)


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
    tree, overrides = dict(tree), dict(overrides or {})
    for key, value in overrides.items():
        _put(tree, key, value)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise ValueError(mistakes.sentences(error, Config, tree, source, overrides)) from None


def parse_override(text: str) -> tuple[str, Any]:
    """Split ``key=value``; the value is read as TOML, and as plain text where it is not TOML.

    >>> parse_override("uplink.ratio=0.04"), parse_override("scheme=a_dsgd")
    (('uplink.ratio', 0.04), ('scheme', 'a_dsgd'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--set {text!r}: must have the form key=value, such as uplink.ratio=0.04")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(_files.read_text(path))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read as a configuration file ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is not valid TOML: {error}") from None


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key in a nested dictionary."""
    *sections, leaf = key.split(".")
    for section in sections:
        inner = tree.get(section)
        tree[section] = dict(inner) if isinstance(inner, Mapping) else {}
        tree = tree[section]
    tree[leaf] = value


def _fill(data: Mapping[str, Any]) -> dict[str, Any]:
    """Complete what other keys decide: scheme defaults, lambda = k/N, the server's rate, fading."""
    tree = {key: dict(value) if isinstance(value, Mapping) else value for key, value in data.items()}

    def default(section: str, key: str, value: Any) -> None:
        table = tree.setdefault(section, {})
        if isinstance(table, dict) and value is not None:
            table.setdefault(key, value)

    def given(section: str, key: str) -> Any:
        table = tree.get(section)
        return table.get(key) if isinstance(table, dict) else None

    scheme = SCHEMES.get(str(tree.get("scheme", "tsa_ga")))
    if scheme is not None:
        default("uplink", "sparsity", scheme.sparsity)
        default("uplink", "signs", scheme.signs)
        default("receiver", "max_iterations", scheme.max_iterations)
    sparsity, rate = given("uplink", "sparsity"), given("devices", "learning_rate")
    if isinstance(sparsity, int | float) and 0 < sparsity <= 1:
        default("receiver", "activity", min(float(sparsity), 0.99))
    if isinstance(rate, int | float) and 0 < rate < float("inf"):
        default("server", "learning_rate", float(rate))
    if given("channel", "kind") == "fading":
        for key, value in _FADING.items():
            default("channel", key, value)
    return tree


def _contradictions(config: Config) -> Iterator[tuple[str, Any, str]]:
    """Yield what is right key by key but not together: key, value and rule."""
    count, samples, spread = config.devices.count, config.devices.samples, config.devices.spread
    if isinstance(samples, tuple) and len(samples) != count:
        yield "devices.samples", list(samples), f"must have one entry for each of the {count} devices"
    if isinstance(samples, tuple) and spread:
        yield "devices.spread", spread, "must be 0 when devices.samples lists every device's number"
    kind = config.partition.kind
    yield from _only_with("partition.classes", config.partition.classes, "partition.kind", kind, "classes")
    yield from _only_with("partition.alpha", config.partition.alpha, "partition.kind", kind, "dirichlet")
    for key in _FADING:
        value = getattr(config.channel, key)
        yield from _only_with(f"channel.{key}", value, "channel.kind", config.channel.kind, "fading")
    if config.model.kind == "cnn" and config.model.l2:
        yield "model.l2", config.model.l2, "must be 0 with model.kind = 'cnn'"
    if config.server.optimizer == "adam" and config.server.momentum:
        yield "server.momentum", config.server.momentum, "must be 0 with server.optimizer = 'adam'"
    p01, limit = config.receiver.p01, (1 - config.receiver.activity) / config.receiver.activity
    if p01 > limit:
        yield "receiver.p01", p01, f"must be <= (1 - activity)/activity = {limit:g}, or p10 > 1"


def _only_with(key: str, value: Any, switch: str, state: str, wanted: str) -> Iterator[tuple[str, Any, str]]:
    """Yield a contradiction if ``key`` is given although nobody reads it, or missing although it is read."""
    if value is not None and state != wanted:
        yield key, value, f"is only read with {switch} = {wanted!r}, but that is {state!r}"
    if value is None and state == wanted:
        yield key, None, f"must be given with {switch} = {wanted!r}"


def _covered(key: str, prefixes: tuple[str, ...]) -> bool:
    """Whether ``key`` is one of ``prefixes`` or lies in a section among them."""
    return any(key == prefix or key.startswith(prefix + ".") for prefix in prefixes)
