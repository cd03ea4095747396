"""What a finished run lends to the planner: chain, noise, and a margin learned from its own rounds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config, build_config, mistakes, read_config
from airfeel.config.sections import RadioKeys
from airfeel.experiments.runs.files import RunError
from airfeel.experiments.runs.reading import aggregate_file, checked_records, read_aggregate
from airfeel.experiments.studies import replay
from airfeel.experiments.studies.planning import method_of, plan_of
from airfeel.experiments.studies.promise import ByRecords, ByTheory, Promising
from airfeel.experiments.studies.recorded import FEWEST, stack_aggregates
from airfeel.radio.units import RadioUnits
from airfeel.schemes.compressed import Compressed
from airfeel.simulation import Record
from airfeel.simulation.assembly import make_scheme
from airfeel.theory.planner import LinkBudget, LinkPlan
from airfeel.units import decibel

LONGEST = 150  # rounds at the end of a run that are predicted or replayed
_RADIO = (f"radio.{key}" for key in RadioKeys.model_fields)
OF_THE_LINK = frozenset(["uplink.ratio", "uplink.power", "channel.noise_var", *_RADIO])
OF_THE_AIR = (
    "devices.dropout",
    "devices.participation",
    "uplink.policy",
)  # and the other keys of the channel


@dataclass(frozen=True, slots=True, eq=False)
class Lent:
    """A run as the planner sees it: its plan, its own link, and the link that is asked about."""

    folder: Path
    config: Config
    units: RadioUnits | None
    """the radio that is asked about, where the run has one"""
    records: Sequence[Record]
    plan: LinkPlan
    own: LinkBudget
    link: LinkBudget
    alike: bool

    def promising(self, plan: LinkPlan) -> Promising:
        """Return the forecast for ``plan``: a replay where aggregates were recorded, else with a margin.

        A plan with another chain, receiver or sparsifier than the run's gets no margin, as none is known.
        """
        if not self.alike or plan.chain != self.plan.chain:
            return ByTheory(plan)
        last = self.records[-plan.rounds :]
        measured = np.array([record.nmse_db for record in last])
        if len(last) < FEWEST or not all(aggregate_file(self.folder, r.round).exists() for r in last):
            own = replace(plan, rounds=len(last))
            return ByRecords.learn(own, self.own, measured, str(self.folder / "config.toml"))
        rounds = [record.round for record in last]
        noise_var = np.array([record.noise_var for record in last])
        aggregates = stack_aggregates(self.folder, rounds)
        sent = replay.RecordedUplink(rounds, aggregates, noise_var, self.own, self.config.seed)
        scheme = make_scheme(self.config)
        assert isinstance(scheme, Compressed)  # as are all that the planner knows a method for
        return replay.learn(sent, scheme, measured)


def from_run(folder: Path, settings: Mapping[str, Any]) -> Lent:
    """Return what a run lends: its learned chain, and the noise it really had (the link's excess).

    Chain and noise are medians over the second half of the rounds. ``settings`` are changes to its
    configuration, by dotted key.
    """
    records = [r for r in checked_records(folder) if r.noise_var and r.nmse_db is not None]
    config = read_config(folder / "config.toml")
    changed = build_config(config.model_dump(exclude_none=True), settings, str(folder / "config.toml"))
    _require_its_air(config, changed, settings)
    method_of(changed)  # refuses a scheme that cannot be predicted before asking for its chain
    late = [r for r in records[len(records) // 2 :] if r.activity and r.variance]
    if not late:
        raise RunError(f"{folder} has no round in which chain parameters were in force: give them as options")
    chain = ChainParams(*(_median(late, name) for name in ("activity", "p01", "beta", "variance")))
    rows = records[0].symbols
    size = _size(folder, records[-1].round, rows, config)
    units = _units(folder, config, records[-1])
    own = replace(plan_of(config, size, units)[1], rows=rows)
    units = None if units is None else replace(units, **changed.radio.model_dump(exclude_none=True))
    plan, reference = plan_of(changed, size, units)
    noise = _median(late, "noise_var") / (chain.activity * chain.variance)
    own = replace(own, excess=noise * own.snr)
    plan = replace(plan, chain=replace(chain, variance=1.0), rounds=min(len(records), LONGEST))
    asked = replace(reference, excess=own.excess)
    return Lent(folder, config, units, records, plan, own, asked, alike=settings.keys() <= OF_THE_LINK)


def _require_its_air(config: Config, changed: Config, settings: Iterable[str]) -> None:
    """Refuse changes of the air beyond the link: the rounds of a run tell of their own only."""
    before, after = (mistakes.flatten(of.model_dump()) for of in (config, changed))
    for key in sorted({*settings} - OF_THE_LINK):
        if (key in OF_THE_AIR or key.startswith("channel.")) and before.get(key) != after.get(key):
            rule = "must not be changed for the folder of a run, which tells of its own air only"
            raise ValueError(f"{key} = {after.get(key)!r}: {rule}")


def _size(folder: Path, round_: int, rows: int, config: Config) -> int:
    """Return N: as recorded, or as s/N has it, since only the run could load data and model of its own."""
    if aggregate_file(folder, round_).exists():
        return len(read_aggregate(folder, round_))
    return round(rows / config.uplink.ratio)


def _units(folder: Path, config: Config, last: Record) -> RadioUnits | None:
    """Return the radio of a run, with the path loss of its channel as its records tell it.

    The channel may be one that only the run could build.
    """
    given = config.radio.model_dump(exclude_none=True)
    if not given or "path_loss_db" in given:
        return RadioUnits(**given) if given else None
    near = RadioUnits(**given, path_loss_db=0.0)
    spent = near.joules(last.energy or 0.0)
    if not last.joules or not spent:
        raise RunError(f"{folder} has no joules on record that tell the path loss of its channel")
    return replace(near, path_loss_db=decibel(last.joules / spent))


def _median(records: Sequence[Record], name: str) -> float:
    return float(np.median([getattr(record, name) for record in records]))
