"""The typed configuration of one run: its keys, its identity, and itself as TOML."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, create_model, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from airfeel.config import identity, mistakes, toml
from airfeel.config.contents import content_digests
from airfeel.config.parts import (
    SEAMS,
    SECTIONS,
    Chosen,
    choose,
    completed,
    key_of,
    part_options,
    preset,
    section_class,
    source_digests,
    unread,
)
from airfeel.config.radio import unfit, units
from airfeel.config.sections import (
    ChannelKeys,
    DeviceKeys,
    ModelKeys,
    PartitionKeys,
    RadioKeys,
    ReceiverKeys,
    RunKeys,
    Section,
    ServerKeys,
    UplinkKeys,
)
from airfeel.ranges import LARGEST, Count
from airfeel.registry import Part

# What cannot change a result does not belong to a run's identity; the values of a preset do.
_INCIDENTAL = ("name", "run.checkpoint_every", "run.threads", "run.memory_map_above", "model.preset")
# What a scheme that sends nothing through the air does not read.
_RADIO = ("uplink.ratio", "uplink.power", "uplink.policy", "channel", "radio")


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


class Config(Section):
    """One run, completely described.

    The parts it names (scheme, channel, model) add their options to the sections ``uplink``, ``receiver``,
    ``channel`` and ``model``.

    >>> config = load_config(None, {"scheme": "a_dsgd", "devices.count": 10})
    >>> config.uplink.sparsity, config.devices.count
    (0.05, 10)
    """

    scheme: str = "tsa_ga"
    """airfeel list names them all; or package.module:Name"""
    dataset: Annotated[str, BeforeValidator(_text), Field(min_length=1)] = "mnist"
    """airfeel list names them all; or a folder, an npz file, or package.module:load"""
    rounds: Count = 300
    """T, rounds of training"""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """decides data, noise, rows and everything else that is random"""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)] | None = None
    """what to call the run; unset: the scheme"""
    devices: DeviceKeys = DeviceKeys()
    partition: PartitionKeys = PartitionKeys()
    model: ModelKeys = ModelKeys()
    uplink: UplinkKeys = UplinkKeys()
    channel: ChannelKeys = ChannelKeys()
    radio: RadioKeys = RadioKeys()
    receiver: ReceiverKeys = ReceiverKeys()
    server: ServerKeys = ServerKeys()
    run: RunKeys = RunKeys()

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
        for table in SECTIONS:
            tree.setdefault(table, {})
        _complete(tree, chosen)
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

    @property
    def chosen(self) -> Chosen:
        """The parts that the configuration names."""
        return choose(
            {
                "scheme": self.scheme,
                "channel": {"kind": self.channel.kind},
                "model": {"kind": self.model.kind},
            }
        )[0]

    def part(self, seam: str) -> Any:
        """Return the scheme, channel or model that is named, built with its options."""
        part: Part = getattr(self.chosen, seam)
        return part.build(self.options(seam))

    def options(self, seam: str) -> dict[str, Any]:
        """Return the options of the scheme, the channel or the model."""
        return part_options(self.model_dump(), self.chosen, seam)

    def scheme_as(self, name: str) -> Any:
        """Return a registered scheme with the options that this configuration gives, whatever its own is."""
        seam, flat = SEAMS["scheme"], self._flat()
        part = seam.registry.get(name)
        options = {o.name: flat[key] for o in part.options if (key := key_of(seam, o)) in flat}
        return part.build({**part.complete(part.defaults() | options), **options})

    def identity(self) -> dict[str, Any]:
        """Return what determines the result: keys by dotted name, and revisions of parts from 2 on."""
        flat, known = self._flat(), mistakes.fields(type(self))
        ignored, always = _INCIDENTAL + self._unread(), identity.always(self.channel.kind)
        found = {
            key: value
            for key, value in flat.items()
            if not _covered(key, ignored) and (key in always or value != _as_json(known[key].default))
        }
        return found | self._revisions(found)

    def digest(self) -> str:
        """Return a short hash of :meth:`identity`; it names the run's folder."""
        return identity.digest(self.identity())

    def label(self) -> str:
        """Return ``<name>-<hash>``, the name of the run's folder."""
        return f"{self.name or self.scheme.rpartition(':')[2]}-{self.digest()}"

    def to_toml(self) -> str:
        """Return the resolved configuration as TOML, with the table ``[identity]`` of a run's folder.

        That names the hash, the keys that were hashed, revisions of parts, digests of the sources of parts
        that are not airfeel's own, and of files that keys name.
        """
        found = self.identity()
        keys = sorted(key for key in found if not key.startswith("revision."))
        revisions = {key: value for key, value in found.items() if key.startswith("revision.")}
        table = {"hash": self.digest(), "keys": keys} | revisions
        table |= source_digests(self.chosen) | content_digests(self.chosen, self._flat())
        return toml.dumps(self.model_dump(mode="json") | {"identity": table}, self._notes())

    def template(self) -> str:
        """Return the configuration as a file to edit; keys that other parts would read are comments."""
        return toml.dumps(self.model_dump(mode="json"), self._notes(), self._other_keys())

    def _notes(self) -> dict[str, str]:
        """Return what each key means, or that nobody reads it."""
        notes = {key: field.description or "" for key, field in mistakes.fields(type(self)).items()}
        return notes | {key: f"not read by {self.scheme}" for key in notes if _covered(key, self._unread())}

    def _flat(self) -> dict[str, Any]:
        return mistakes.flatten(self.model_dump(mode="json", exclude_none=True))

    def _unread(self) -> tuple[str, ...]:
        """Return the keys, or whole sections, that cannot change the result."""
        radio = getattr(self.chosen.scheme.kind, "uses_radio", True)
        return (() if radio else _RADIO) + tuple(self.chosen.others)

    def _revisions(self, found: Mapping[str, Any]) -> dict[str, int]:
        """Return the revisions above 1 of the parts that are read, and of single keys that are in use."""
        raised = {
            name: getattr(self.chosen, name).revision for name, seam in SEAMS.items() if seam.key in found
        }
        for key, field in mistakes.fields(type(self)).items():
            extra = field.json_schema_extra
            if (
                key in found
                and isinstance(extra, dict)
                and "revision" in extra
                and found[key] != field.default
            ):
                raised[key] = int(str(extra["revision"]))
        if self.partition.pool is None and self.dataset not in identity.FIRST_POOL:
            raised["partition.pool"] = 2
        return {f"revision.{name}": revision for name, revision in raised.items() if revision > 1}

    def _other_keys(self) -> dict[str, tuple[Any, str]]:
        """Return the keys that are not set or that only other parts read, with a default and a note."""
        chosen = self.chosen
        unset = {
            key: (None, field.description or "")
            for key, field in mistakes.fields(type(self)).items()
            if field.default is None
        }
        return unset | {
            key: (option.default, f"{option.help} ({SEAMS[name].key} = {_listed(chosen.readers(key))})")
            for key, (name, _, option) in chosen.others.items()
        }


def _listed(names: Sequence[str]) -> str:
    """Return a few names, and how many more there are."""
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


@lru_cache(maxsize=64)
def config_class(chosen: Chosen) -> type[Config]:
    """Return the configuration with the options of the chosen parts."""
    fields: dict[str, Any] = {table: (section_class(table, chosen), ...) for table in SECTIONS}
    return create_model("Config", __base__=Config, __doc__=Config.__doc__, **fields)


def _rebuilt(tree: dict[str, Any]) -> Config:
    return Config.model_validate(tree)


def _complete(tree: dict[str, Any], chosen: Chosen) -> None:
    """Fill in what other keys decide: the model's preset, lambda = k/N, the radio's, the server's rate."""
    preset(tree, chosen.model)
    completed(tree, chosen)
    units(tree)
    devices, server = tree.get("devices"), tree.setdefault("server", {})
    rate = devices.get("learning_rate") if isinstance(devices, dict) else None
    if isinstance(server, dict) and isinstance(rate, int | float) and 0 < rate <= LARGEST:
        server.setdefault("learning_rate", float(rate))


def _contradictions(config: Config) -> Iterator[tuple[str, Any, str]]:
    """Yield what is right key by key but not together: key, value and rule."""
    count, samples, spread = config.devices.count, config.devices.samples, config.devices.spread
    if isinstance(samples, tuple) and len(samples) != count:
        yield "devices.samples", list(samples), f"must have one entry for each of the {count} devices"
    if isinstance(samples, tuple) and spread:
        yield "devices.spread", spread, "must be 0 when devices.samples lists every device's number"
    yield from _local_training(config)
    yield from unfit(config.radio, config.uplink, config.chosen.channel)
    kind = config.partition.kind
    yield from _only_with("partition.classes", config.partition.classes, "partition.kind", kind, "classes")
    yield from _only_with("partition.alpha", config.partition.alpha, "partition.kind", kind, "dirichlet")
    flat = mistakes.flatten(config.model_dump(exclude_none=True))
    yield from unread(config.chosen, flat)
    if config.server.optimizer == "adam" and config.server.momentum:
        yield "server.momentum", config.server.momentum, "must be 0 with server.optimizer = 'adam'"
    p01, activity = flat.get("receiver.p01"), flat.get("receiver.activity")
    if p01 is not None and activity is not None and p01 > (1 - activity) / activity:
        limit = (1 - activity) / activity
        yield "receiver.p01", p01, f"must be <= (1 - activity)/activity = {limit:g}, or p10 > 1"


def _local_training(config: Config) -> Iterator[tuple[str, Any, str]]:
    devices = config.devices
    if devices.local_epochs is not None and devices.local_steps != 1:
        yield "devices.local_steps", devices.local_steps, "must not be given with devices.local_epochs"
    for key in ("schedule_every", "schedule_factor"):
        default = DeviceKeys.model_fields[key].default
        if devices.schedule is None and getattr(devices, key) != default:
            rule = "is only read with devices.schedule; server.schedule has its own"
            yield f"devices.{key}", getattr(devices, key), rule


def _only_with(key: str, value: Any, switch: str, state: str, wanted: str) -> Iterator[tuple[str, Any, str]]:
    """Yield a contradiction if ``key`` is given although nobody reads it, or missing although it is read."""
    if value is not None and state != wanted:
        yield key, value, f"is only read with {switch} = {wanted!r}, but that is {state!r}"
    if value is None and state == wanted:
        yield key, None, f"must be given with {switch} = {wanted!r}"


def _as_json(default: Any) -> Any:
    """Return a default as :meth:`Config._flat` would: JSON knows no tuples."""
    return list(default) if isinstance(default, tuple) else default


def _covered(key: str, prefixes: tuple[str, ...]) -> bool:
    """Whether ``key`` is one of ``prefixes`` or lies in a section among them."""
    return any(key == prefix or key.startswith(prefix + ".") for prefix in prefixes)
