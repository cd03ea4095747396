"""An experiment is a readable file: what all runs share, curves, variants or a grid, and seeds.

The same form serves the figures of the paper, which are shipped with the package, and everybody's own sweeps.
Every combination of curve, variant and seed is one run; nothing else is needed to find it again. A file can
start from a shipped one (``like = "fig7"``) and say only what is different.

A results folder holds runs and the experiments that were begun in it. Nothing is built or imported that a
file there names: which runs belong to an experiment was written down when it was begun.
"""

import itertools
import json
import math
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, model_validator

from airfeel import _checks, _files
from airfeel._checks import visible
from airfeel.config import Config, build_config, identity, mistakes, read_toml
from airfeel.config.sections import Section
from airfeel.lab import store, studies
from airfeel.lab.exhibits import figure_kinds
from airfeel.lab.figures import GROUPS, SHIPPED, shipped_file
from airfeel.lab.runner import Work, execute, training_effort
from airfeel.lab.store import OTHERS, SUMMARY, Damage, FinishedRun, examine, left_out
from airfeel.ranges import Count


def training(tree: Mapping[str, Any], source: str) -> Work:
    """Return a training run that computes in one thread: many runs keep all cores busy."""
    config = build_config(mistakes.merge({"run": {"threads": 1}}, tree), source=source)
    return Work(config, _train, training_effort(config))


def _train(config: Config, out: Path, force: bool, stop: Callable[[], bool]) -> bool:
    return execute(config, out, force=force, stop=stop).summary is not None


def _kinds() -> Iterator[tuple[str, Callable[[Mapping[str, Any], str], Work]]]:
    """Yield what a run can be: training, and every study that has a function ``work``.

    That makes the work of the keys of an experiment; its second argument names them in errors.
    """
    yield "training", training
    for found in pkgutil.iter_modules(studies.__path__):
        module = import_module(f"{studies.__name__}.{found.name}")
        if hasattr(module, "work"):
            yield found.name, module.work


KINDS = dict(_kinds())

MOST_VARIANTS = 10_000  # a report counts them all, also those of a file in somebody's folder
QUICK_ROUNDS, QUICK_SEEDS = 50, 3
_UNLISTED = "the list of its runs is missing or damaged; the command that computed it writes it again"
COURSES = ("round", "symbols", "air_seconds", "joules")  # what a figure can follow a run along

Metric = Literal["accuracy", "loss", "nmse_db", "cumulative_nmse_db"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
Text = Annotated[str, Field(min_length=1)]
Seeds = Annotated[
    tuple[Annotated[int, Field(ge=0, lt=2**63)], ...],
    Field(
        min_length=1,
        strict=False,
        json_schema_extra={"rule": "must be a list of one or more whole numbers >= 0"},
    ),
]
Table = Annotated[dict[str, Any], Field(json_schema_extra={"rule": "must be a table of configuration keys"})]
Tables = Annotated[
    tuple[dict[str, Any], ...],
    Field(strict=False, json_schema_extra={"rule": "must be a list of tables, each with a label"}),
]


class FigureSpec(Section):
    """One picture of an experiment's curves."""

    name: Name
    """of the files made from it"""
    title: Text
    kind: Text = "curves"
    """curves of a metric, or another exhibit that can be asked for"""
    variant: str = ""
    """show this variant only (special figures)"""
    metric: Metric = "accuracy"
    x: str = "round"
    """round, symbols, or a swept key: then what came out in the end is drawn over its values"""
    y: str = ""
    """a second swept key: then what came out is a map over both"""
    split: bool = False
    """a plot for each variant, however few there are"""
    caption: str = ""


class LeftOut(Section):
    """Runs of one curve that are not made, and why."""

    curve: Text
    """its label"""
    variants: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """labels of the variants; none given: all"""
    why: Text


class Experiment(Section):
    """A set of runs that belong together and how to look at them."""

    name: Name
    title: Text
    caption: str = ""
    kind: Literal[tuple(KINDS)] = "training"  # type: ignore[valid-type]
    """training, or one of the theory's own studies"""
    rounds: Count | None = None
    """of every run; unset: what base says"""
    seeds: Seeds = (0, 1, 2)
    base: Table = Field(default_factory=dict)
    """configuration keys that all runs share"""
    grid: Table = Field(default_factory=dict)
    """lists of values by key: every combination is a variant"""
    curves: Tables = ()
    """what is compared: label and configuration keys; seeds of its own, where a curve is costly"""
    subjects: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """labels of the curves that the experiment is about: figures emphasise them, and mute the others"""
    variants: Tables = ()
    """under which circumstances: label and configuration keys"""
    left_out: Annotated[
        tuple[LeftOut, ...],
        Field(strict=False, json_schema_extra={"rule": "must be a list of tables with curve and why"}),
    ] = ()
    """combinations that cannot exist, or are not worth their time: the tables say why"""
    figures: Annotated[
        tuple[FigureSpec, ...],
        Field(strict=False, json_schema_extra={"rule": "must be a list of tables with name and title"}),
    ] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for key, entries in (("curves", self.curves), ("variants", self.variants)):
            labels = [entry.get("label") for entry in entries]
            if not all(isinstance(label, str) and label for label in labels):
                raise mistakes.Contradiction(key, labels, "every entry must have a label, a text")
            if len(set(labels)) < len(labels):
                raise mistakes.Contradiction(key, labels, "no label may appear twice")
        for key, values in mistakes.flatten(self.grid).items():
            if not isinstance(values, list) or not values:
                raise mistakes.Contradiction(f"grid.{key}", values, "must be a list of values")
        if math.prod(map(len, mistakes.flatten(self.grid).values())) > MOST_VARIANTS:
            rule = f"must make at most {MOST_VARIANTS} combinations"
            raise mistakes.Contradiction("grid", dict(self.grid), rule)
        if self.grid and self.variants:
            raise mistakes.Contradiction("grid", dict(self.grid), "must be empty where variants are listed")
        curves = [entry["label"] for entry in self.curves]
        variants = [label for label, _ in self._variants()]
        chosen = [("subjects", subject, curves) for subject in self.subjects]
        for entry in self.left_out:
            chosen += [("left_out.curve", entry.curve, curves)]
            chosen += [("left_out.variants", variant, variants) for variant in entry.variants]
        chosen += [("figures.variant", each.variant, ["", *variants]) for each in self.figures]
        for key, value, known in chosen:
            if value not in known:
                raise mistakes.Contradiction(key, value, f"must be one of {[word for word in known if word]}")
        for curve in self.curves:
            seeds = curve.get("seeds", list(self.seeds))
            if not isinstance(seeds, list) or not seeds or not set(seeds) <= set(self.seeds):
                rule = f"must be a list of some of the experiment's seeds, {list(self.seeds)}"
                raise mistakes.Contradiction("curves.seeds", seeds, rule)
        for figure in self.figures:
            if figure.kind not in figure_kinds():
                rule = f"must be one of {figure_kinds()}"
                raise mistakes.Contradiction("figures.kind", figure.kind, rule)
            self._check_axes(figure)
        return self

    def _check_axes(self, figure: FigureSpec) -> None:
        numeric = self.numeric()
        axes = [*COURSES, *numeric]
        if figure.x not in axes:
            rule = f"must be one of {axes}, of the swept keys one that is a number in every variant"
            raise mistakes.Contradiction("figures.x", figure.x, rule)
        others = [key for key in numeric if key != figure.x]
        if figure.y and (figure.x in COURSES or figure.y not in others):
            rule = f"must be another swept key than x, a number in every variant, of {others}"
            raise mistakes.Contradiction("figures.y", figure.y, rule)

    def why_not(self, curve: str, variant: str) -> str:
        """Return why a combination is left out; nothing where it is not."""
        found = (e.why for e in self.left_out if e.curve == curve and variant in (e.variants or (variant,)))
        return next(found, "")

    def runs(self) -> list[Work]:
        """Return every run, in an order that never varies; refuse what is no valid configuration."""
        planned: list[Work] = []
        for curve, variant, seeds, tree in self._combinations():
            place = " / ".join(word for word in (self.name, curve, variant) if word)
            for seed in seeds:
                work = KINDS[self.kind]({**tree, "seed": seed}, place)
                planned.append(replace(work, curve=curve or work.config.scheme, variant=variant))
        return planned

    def swept(self) -> list[str]:
        """Return the dotted configuration keys in which variants differ."""
        return list(dict.fromkeys(key for of in self.settings_by_variant().values() for key in of))

    def settings_by_variant(self) -> dict[str, dict[str, Any]]:
        """Return by label what every variant sets, by dotted key; the scheme makes a curve, not a variant."""
        flat = {label: mistakes.flatten(tree) for label, tree in self._variants()}
        return {label: {k: v for k, v in of.items() if k != "scheme"} for label, of in flat.items()}

    def numeric(self) -> list[str]:
        """Return the swept keys that have a number in every variant."""
        settings = list(self.settings_by_variant().values())
        numbers = [{key for key, value in of.items() if type(value) in (int, float)} for of in settings]
        return [key for key in self.swept() if all(key in found for found in numbers)]

    def shortened(self, rounds: int | None = None, seeds: int | None = None) -> "Experiment":
        """Return the same experiment with other rounds, or with so many seeds, counted on from its first.

        A study that is no training has the rounds it needs: it becomes shorter, never longer.
        """
        if rounds is not None and self.kind != "training" and self.rounds is not None:
            rounds = min(rounds, self.rounds)
        changes: dict[str, Any] = {} if rounds is None else {"rounds": rounds}
        if seeds is not None:
            changes["seeds"] = tuple(range(self.seeds[0], self.seeds[0] + seeds))
            changes["curves"] = tuple(_with_some_of(curve, changes["seeds"]) for curve in self.curves)
        return self.model_copy(update=changes)

    def to_toml(self) -> str:
        """Return the experiment as a file that ``read_experiment`` understands."""
        tree = self.model_dump(mode="json", exclude_none=True)
        scalars = {
            key: tree.pop(key) for key in list(tree) if not isinstance(getattr(self, key), dict | tuple)
        }
        lines = _lines({**scalars, "seeds": tree.pop("seeds"), "subjects": tree.pop("subjects")})
        for key, content in tree.items():
            for table in [content] if isinstance(content, dict) else content:
                heading = f"[{key}]" if isinstance(content, dict) else f"[[{key}]]"
                lines += ["", heading, *_lines(table)] if table else []
        return "\n".join(lines) + "\n"

    def _combinations(self) -> Iterator[tuple[str, str, Sequence[int], dict[str, Any]]]:
        """Yield curve label, variant label, seeds and the configuration they make together."""
        curves = self.curves or ({},)
        for entry, (variant, changes) in itertools.product(curves, self._variants()):
            curve = {key: value for key, value in entry.items() if key not in ("label", "seeds")}
            if self.why_not(str(entry.get("label")), variant):
                continue
            tree = mistakes.merge(mistakes.merge(self.base, changes), curve)
            if self.rounds is not None:
                tree["rounds"] = self.rounds
            label = str(entry.get("label", tree.get("scheme", "")))
            yield label, variant, entry.get("seeds", self.seeds), _resolve(tree, self.name)

    def _variants(self) -> list[tuple[str, dict[str, Any]]]:
        if self.variants:
            return [(v["label"], {k: x for k, x in v.items() if k != "label"}) for v in self.variants]
        axes = mistakes.flatten(self.grid)
        found = []
        for values in itertools.product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            words = [f"{key} = {value}" for key, value in chosen.items() if key != "scheme"]
            found.append((", ".join(words), mistakes.nest(chosen)))
        return found


def check_target(target: float | None) -> float | None:
    """Refuse an accuracy to be reached that is no share."""
    try:
        return None if target is None else _checks.real("--target-accuracy", target, above=0, at_most=1)
    except ValueError as error:
        raise ValueError(f"{error}, such as 0.8 for 80 %") from None


def _with_some_of(curve: dict[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """Return a curve whose own seeds, where it has any, are among these; one at least."""
    kept = [seed for seed in curve.get("seeds", ()) if seed in seeds]
    return curve | {"seeds": kept or [seeds[0]]} if "seeds" in curve else curve


def _resolve(tree: dict[str, Any], source: str) -> dict[str, Any]:
    """Replace every ``{ of = "uplink.ratio", times = 0.5 }`` by that multiple of the other key's value."""
    flat = mistakes.flatten(tree)
    found = dict(flat)
    for key in [key for key in flat if key.endswith(".of")]:
        owner, other = key.removesuffix(".of"), flat[key]
        if not isinstance(flat.get(other), int | float):
            raise ValueError(f"{source}: {key} = {other!r}: must name a key that has a number here")
        del found[key]
        found[owner] = flat[other] * found.pop(f"{owner}.times", 1)
    return mistakes.nest(found)


def _lines(table: Mapping[str, Any]) -> list[str]:
    """Return one line of TOML per key, tables inside as dotted keys."""
    return [f"{key} = {identity.value(item)}" for key, item in mistakes.flatten(table).items()]


def read_experiment(path: Path) -> Experiment:
    """Read and check an experiment file; its name, where the file gives none, is that of the file."""
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
    return read_experiment(shipped_file(name))


def _read(path: Path) -> dict[str, Any]:
    """Return what an experiment file says, over what the shipped one says that it is like."""
    tree = read_toml(path, "an experiment")
    if "like" not in tree:
        return tree
    model = tree.pop("like")
    if model not in SHIPPED:
        raise ValueError(f"{path}: like = {model!r}: must be one of {', '.join(SHIPPED)}")
    return _over(_read(shipped_file(model)), tree)


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


# --- experiments that were begun in a results folder -------------------------------------------------------


class Member(NamedTuple):
    """A run of an experiment by its folder's name: which curve, which circumstances, which seed."""

    curve: str
    variant: str
    seed: int
    label: str


@dataclass(frozen=True, slots=True)
class Begun:
    """An experiment that was begun in a results folder, and its runs, finished or not."""

    experiment: Experiment
    members: Sequence[Member]


class ResultsFolder:
    """Reads what is asked for, and reads it once.

    ``stamp`` returns what changes whenever a run's files do, as they were before it was read; None where the
    run cannot be finished.
    """

    def __init__(self, path: Path) -> None:
        self.path, runs = path, path / "runs"
        self.stamp = stamp = cache(
            lambda label: store.stamp(runs / label / SUMMARY, others=[runs / label / name for name in OTHERS])
        )
        self._examined = cache(lambda label: stamp(label) and examine(runs / label))
        self._begun = cache(_read_begun)

    def labels(self) -> list[str]:
        """Return the names of all runs' folders, sorted, whether or not the runs are finished."""
        return [path.name for path in sorted((self.path / "runs").glob("*")) if path.is_dir()]

    def run(self, label: str) -> FinishedRun | None:
        """Return a run if it is finished and intact."""
        found = self._examined(label)
        return found if isinstance(found, FinishedRun) else None

    def damage(self, label: str) -> Damage | None:
        """Return what is wrong with a finished run."""
        found = self._examined(label)
        return found if isinstance(found, Damage) else None

    def damaged(self) -> list[str]:
        """Return a sentence about every finished run that is damaged."""
        return [left_out(label, damage) for label in self.labels() if (damage := self.damage(label))]

    def nothing(self, notes: Sequence[str]) -> ValueError:
        """Build the error for a folder without a finished run, with what else there is to say."""
        return ValueError("\n".join([f"{self.path}: has no finished run under {self.path / 'runs'}", *notes]))

    def experiments(self) -> tuple[list[Begun], list[str]]:
        """Return the experiments that were begun here, by name, and a sentence about each one left out."""
        begun, left_out = [], []
        for path in sorted((self.path / "experiments").glob("*.toml"), key=lambda path: path.stem):
            try:
                begun.append(self._begun(path))
            except ValueError as error:
                reason = "; ".join(str(error).splitlines())
                left_out.append(visible(f"experiment {path.stem} is left out: {reason}"))
        return begun, left_out


def remember_experiment(experiment: Experiment, out: Path, runs: Sequence[Work]) -> Begun:
    """Keep the experiment and the names of its runs in ``out/experiments``, for tables and pages."""
    begun = Begun(experiment, [Member(run.curve, run.variant, run.config.seed, run.label) for run in runs])
    path = out / "experiments" / f"{experiment.name}.toml"
    with store.explained(out):
        _files.below(out, "experiments").mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(member._asdict(), ensure_ascii=False) for member in begun.members)
        _files.write_atomically(path.with_suffix(".json"), f"[\n{lines}\n]\n".encode())
        _files.write_atomically(path, experiment.to_toml().encode())
    return begun


def _read_begun(path: Path) -> Begun:
    """Return an experiment with its runs; refuse a list of them that is not what was written."""
    try:
        rows = _files.parse_json(_files.read_text(path.with_suffix(".json"), _files.LIST))
        members = [Member(**row) for row in rows]
    except (OSError, ValueError, TypeError):
        raise ValueError(_UNLISTED) from None
    kinds = [tuple(map(type, member)) for member in members]
    if any(kind != (str, str, int, str) for kind in kinds) or any("/" in member.label for member in members):
        raise ValueError(_UNLISTED)
    return Begun(read_experiment(path), members)
