"""The typed configuration of one run: its keys, its identity, and itself as TOML."""

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, create_model, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from airfeel import _foreign
from airfeel.config import identity, mistakes, parts
from airfeel.config.parts import Chosen, choose
from airfeel.config.sections import TABLES, DeviceKeys, Keys, Section
from airfeel.radio.units import NOISE_FIGURE_DB, OVERHEAD
from airfeel.ranges import LARGEST
from airfeel.registry import DATASETS, REQUIRED, SCHEMES, SEAMS

# What cannot change a result does not belong to a run's identity; the values of a preset do.
_INCIDENTAL = ("name", "run.checkpoint_every", "run.threads", "run.memory_map_above", "model.preset")
# What a scheme that sends nothing through the air does not read, beside the options of channel and policy.
_RADIO = ("uplink.power", "uplink.policy", "channel", "radio")


class Config(Keys):
    """One run, completely described.

    The parts it names (such as scheme, channel and model) add their options to its sections.

    >>> config = load_config(None, {"scheme": "a_dsgd", "devices.count": 10})
    >>> config.uplink.sparsity, config.devices.count
    (0.05, 10)
    """

    chosen: ClassVar[Chosen]
    """The parts that the configuration names."""

    @model_validator(mode="wrap")
    @classmethod
    def _of_the_parts(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Validate as the class that has the options of the parts named, whichever was called."""
        if not isinstance(data, Mapping):
            return handler(data)
        tree = {key: dict(item) if isinstance(item, Mapping) else item for key, item in data.items()}
        tree.pop("identity", None)  # what a run's folder notes about its own hash
        chosen, wrong = choose(tree)
        wanted = config_class(chosen)
        if cls is not wanted:
            if wrong:
                key, (value, rule) = next(iter(wrong.items()))
                raise mistakes.Contradiction(key, value, rule)
            return wanted.model_validate(tree)  # type: ignore[return-value]
        given = {key: set(item) if isinstance(item, dict) else set() for key, item in tree.items()}
        for table in TABLES:
            tree.setdefault(table, {})
        parts.complete(tree, chosen)
        _complete(tree)
        config = handler(tree)
        # Only what was given counts as set: what follows from it follows anew when a key is changed.
        config.model_fields_set.intersection_update(given)
        for table in (key for key, item in tree.items() if isinstance(item, dict)):
            getattr(config, table).model_fields_set.intersection_update(given.get(table, ()))
        for key, value, rule in _contradictions(config):
            raise mistakes.Contradiction(key, value, rule)
        return config

    def __reduce__(self) -> Any:
        """Travel between processes as plain values: the class is made anew there."""
        return _rebuilt, (self.model_dump(exclude_unset=True),)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, which has an identity of its own."""
        copy = super().model_copy(update=update, deep=deep)
        vars(copy).pop("_hashed", None)
        return copy

    def part(self, seam: str, **given: Any) -> Any:
        """Return the part of a seam, such as the scheme, built with its options and what the run gives it."""
        return self.chosen[seam].build(self.options(seam) | given)

    def options(self, seam: str) -> dict[str, Any]:
        """Return the options of the part of a seam, such as the model."""
        keys = SEAMS[seam].keys(self.chosen[seam]).items()
        return {
            option.name: getattr(getattr(self, key.partition(".")[0]), option.name) for key, option in keys
        }

    def scheme_as(self, name: str) -> Any:
        """Return a registered scheme with the options that this configuration gives, whatever its own is."""
        flat, part = self._flat(), SCHEMES.get(name)
        options = {option.name: flat[key] for key, option in SCHEMES.keys(part).items() if key in flat}
        return part.build({**part.complete(part.defaults() | options), **options})

    def identity(self) -> dict[str, Any]:
        """Return what determines the result: keys by dotted name, and revisions of parts from 2 on."""
        return dict(self._hashed)

    @cached_property
    def _hashed(self) -> dict[str, Any]:
        ignored = _INCIDENTAL + self.chosen.listed("writes") + self._unread()
        found = {key: value for key, value in self._flat().items() if not _covered(key, ignored)}
        for seam, part in self.chosen.items():
            if part.key in found and part.revision > 1:
                found[f"revision.{seam}"] = part.revision
        return found

    def digest(self) -> str:
        """Return a short hash of :meth:`identity`; it names the run's folder."""
        return identity.digest(self._hashed)

    def label(self) -> str:
        """Return ``<name>-<hash>``, the name of the run's folder."""
        return f"{self.name or self.scheme.rpartition(':')[2]}-{self.digest()}"

    def to_toml(self) -> str:
        """Return the resolved configuration as TOML, with the table ``[identity]`` of a run's folder.

        That names the hash, the keys that were hashed, revisions of parts, digests of the sources of parts
        that are not airfeel's own, and of files that keys name, as far as they can be read.
        """
        revisions = {key: value for key, value in self._hashed.items() if key.startswith("revision.")}
        table = {"hash": self.digest(), "keys": sorted(self._hashed.keys() - revisions.keys()), **revisions}
        for seam, part in self.chosen.items():
            if not str(getattr(part.target, "__module__", "")).startswith("airfeel."):
                table[f"source.{seam}"] = identity.source_digest(part.source)
        flat = self._flat()
        data = () if self.dataset in DATASETS.names() else ("dataset",)
        for key in (*data, *self.chosen.listed("reads")):
            if isinstance(path := flat.get(key), str) and (content := identity.content_digest(path)):
                table[f"content.{key}"] = content
        return identity.dumps(self.model_dump(mode="json") | {"identity": table}, self._notes())

    def template(self) -> str:
        """Return the configuration as a file to edit; keys that other parts would read are comments."""
        fields = mistakes.fields(type(self)).items()
        others = {key: (None, field.description or "") for key, field in fields if field.default is None}
        for key, uses in self.chosen.others.items():
            option, names = uses.option, ", ".join(uses.names)
            if len(uses.names) > 3:
                names = f"{', '.join(uses.names[:2])} and {len(uses.names) - 2} more"
            note = f"{option.help} ({SEAMS[uses.seam].key} = {names})"
            others[key] = (None if option.default is REQUIRED else option.default, note)
        return identity.dumps(self.model_dump(mode="json"), self._notes(), others)

    def _notes(self) -> dict[str, str]:
        """Return what each key means, or that nobody reads it."""
        unread = self._unread()
        return {
            key: f"not read by {self.scheme}" if _covered(key, unread) else field.description or ""
            for key, field in mistakes.fields(type(self)).items()
        }

    def _flat(self) -> dict[str, Any]:
        return mistakes.flatten(self.model_dump(mode="json", exclude_none=True))

    def _unread(self) -> tuple[str, ...]:
        """Return the keys, or whole sections, that cannot change the result."""
        others = tuple(self.chosen.others)
        scheme = self.chosen["scheme"].kind
        if getattr(scheme, "uses_radio", True):
            return others
        of_policy = tuple(key for key, (seam, _) in self.chosen.keys.items() if seam == "policy")
        ratio = () if getattr(scheme, "counts_symbols", False) else ("uplink.ratio",)
        return ratio + _RADIO + of_policy + others


@lru_cache(maxsize=64)
def config_class(chosen: Chosen) -> type[Config]:
    """Return the configuration with the options of the chosen parts."""
    tables: dict[str, Any] = {table: (_section_class(table, chosen.about(table)), ...) for table in TABLES}
    made = create_model("Config", __base__=Config, __doc__=Config.__doc__, **tables)
    made.chosen = chosen
    return made


@lru_cache(maxsize=256)
def _section_class(table: str, chosen: Chosen) -> type[Section]:
    """Return a section with the options of the chosen parts, and room for those that only others read."""
    base = TABLES[table]

    class _Base(base):  # type: ignore[valid-type,misc]
        model_config = ConfigDict(arbitrary_types_allowed=True)  # an own part may have options of any type

    own = ", ".join(part.name for part in chosen.parts if ":" in part.name)
    refusal = ValueError(f"[{table}]: an option of {own or 'a part'} cannot be a key of a configuration")
    with _foreign.explained(refusal):
        fields = parts.fields(chosen, table)
        return create_model(base.__name__, __base__=_Base, __doc__=base.__doc__, **fields) if fields else base


def _rebuilt(tree: dict[str, Any]) -> Config:
    return Config.model_validate(tree)


def _complete(tree: dict[str, Any]) -> None:
    """Fill in what other keys decide: the radio's, and the server's rate."""
    devices, server, radio = tree["devices"], tree["server"], tree["radio"]
    rate = devices.get("learning_rate") if isinstance(devices, dict) else None
    if isinstance(server, dict) and isinstance(rate, int | float) and 0 < rate <= LARGEST:
        server.setdefault("learning_rate", float(rate))
    if isinstance(radio, dict) and any(value is not None for value in radio.values()):
        given = {key: value for key, value in radio.items() if value is not None}
        tree["radio"] = {"noise_figure_db": NOISE_FIGURE_DB, "overhead": OVERHEAD} | given
        # P stays open, and energies are measured in units of the noise: both are told by the radio.
        rule = "must not be given with a table [radio], which tells it"
        if mistakes.lookup(tree, "uplink.power") is not None:
            raise mistakes.Contradiction("uplink.power", tree["uplink"]["power"], rule)
        if isinstance(tree["uplink"], dict):
            tree["uplink"]["power"] = None
        if (noise_var := mistakes.lookup(tree, "channel.noise_var", 1.0)) != 1.0:
            raise mistakes.Contradiction("channel.noise_var", noise_var, rule)


def _contradictions(config: Config) -> Iterator[tuple[str, Any, str]]:
    """Yield what is right key by key but not together: key, value and rule."""
    devices, flat = config.devices, mistakes.flatten(config.model_dump(exclude_none=True))
    if isinstance(devices.samples, tuple) and len(devices.samples) != devices.count:
        rule = f"must have one entry for each of the {devices.count} devices"
        yield "devices.samples", list(devices.samples), rule
    if isinstance(devices.samples, tuple) and devices.spread:
        yield "devices.spread", devices.spread, "must be 0 when devices.samples lists every device's number"
    for key in ("schedule_every", "schedule_factor"):
        if devices.schedule is None and getattr(devices, key) != DeviceKeys.model_fields[key].default:
            rule = "is only read with devices.schedule; server.schedule has its own"
            yield f"devices.{key}", getattr(devices, key), rule
    yield from _radio_contradictions(config)
    yield from parts.contradictions(config.chosen, flat)
    p01, activity = flat.get("receiver.p01"), flat.get("receiver.activity")
    if p01 is not None and activity is not None and p01 > (1 - activity) / activity:
        limit = (1 - activity) / activity
        yield "receiver.p01", p01, f"must be <= (1 - activity)/activity = {limit:g}, or p10 > 1"


def _radio_contradictions(config: Config) -> Iterator[tuple[str, Any, str]]:
    """Yield what a table ``[radio]`` lacks, and what channel and policy do not go with."""
    radio, channel, policy = config.radio, config.chosen["channel"], config.chosen["policy"]
    if radio.noise_figure_db is None:  # nothing was given, or it would have been filled in
        if config.uplink.power is None:
            yield "uplink.power", None, "must be given where there is no table [radio]"
        return
    for key in ("bandwidth_hz", "tx_power_dbm"):
        if getattr(radio, key) is None:
            yield f"radio.{key}", None, "must be given with any other key of [radio]"
    if getattr(policy.kind, "saves", False):
        rule = f"must not be {policy.name!r} with [radio], whose transmit power bounds every round"
        yield policy.key, policy.name, rule
    own = hasattr(channel.kind, "reference_loss_db")
    if own and radio.path_loss_db is not None:
        rule = f"must not be given with channel.kind = {channel.name!r}, which has its own"
        yield "radio.path_loss_db", radio.path_loss_db, rule
    if not own and radio.path_loss_db is None:
        rule = f"must be given with [radio], as channel.kind = {channel.name!r} has no path loss of its own"
        yield "radio.path_loss_db", None, rule


def _covered(key: str, prefixes: tuple[str, ...]) -> bool:
    """Whether ``key`` is one of ``prefixes`` or lies in a section among them."""
    return any(key == prefix or key.startswith(prefix + ".") for prefix in prefixes)
