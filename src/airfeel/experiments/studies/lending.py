"""What a finished run lends to the planner: chain, noise, and a margin learned from its own rounds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from airfeel.beliefs.chains import ChainParams
from airfeel.config import Config, mistakes, read_config
from airfeel.config.sections import RadioKeys
from airfeel.experiments.runs.files import RunError
from airfeel.experiments.runs.reading import aggregate_file, checked_records, read_aggregate
from airfeel.experiments.studies import replay
from airfeel.experiments.studies.planning import plan_of
from airfeel.experiments.studies.promise import ByRecords, ByTheory, Promising
from airfeel.experiments.studies.recorded import FEWEST, stack_aggregates
from airfeel.schemes.compressed import Compressed
from airfeel.simulation import Record
from airfeel.simulation.assembly import make_scheme
from airfeel.theory.planner import LinkBudget, LinkPlan
from airfeel.units import count

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
    asked: Config
    """with the changes that are asked about"""
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
        sent = replay.Sent(rounds, aggregates, noise_var, self.own, self.config.seed)
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
    changed = read_config(folder / "config.toml", settings)
    _require_its_air(config, changed, settings)
    plan, reference = plan_of(changed)
    late = [r for r in records[len(records) // 2 :] if r.activity and r.variance]
    if not late:
        raise RunError(f"{folder} has no round in which chain parameters were in force: give them as options")
    chain = ChainParams(*(_median(late, name) for name in ("activity", "p01", "beta", "variance")))
    rows = records[0].symbols
    size = _size(folder, records[-1].round, rows, config)
    own = replace(plan_of(config)[1], size=size, rows=rows)
    noise = _median(late, "noise_var") / (chain.activity * chain.variance)
    own = replace(own, excess=noise * own.snr)
    plan = replace(plan, chain=replace(chain, variance=1.0), rounds=min(len(records), LONGEST))
    asked = replace(reference, size=size, rows=count(changed.uplink.ratio, size), excess=own.excess)
    return Lent(folder, config, changed, records, plan, own, asked, alike=settings.keys() <= OF_THE_LINK)


def _require_its_air(config: Config, changed: Config, settings: Iterable[str]) -> None:
    """Refuse changes of the air beyond the link: the rounds of a run tell of their own only."""
    before, after = (mistakes.flatten(of.model_dump()) for of in (config, changed))
    for key in sorted({*settings} - OF_THE_LINK):
        if (key in OF_THE_AIR or key.startswith("channel.")) and before.get(key) != after.get(key):
            rule = "must not be changed for the folder of a run, which tells of its own air only"
            raise ValueError(f"{key} = {after.get(key)!r}: {rule}")


def _size(folder: Path, round_: int, rows: int, config: Config) -> int:
    """Return N: as recorded, or as s/N has it, since the model may be one that only the run could import."""
    if aggregate_file(folder, round_).exists():
        return len(read_aggregate(folder, round_))
    return round(rows / config.uplink.ratio)


def _median(records: Sequence[Record], name: str) -> float:
    return float(np.median([getattr(record, name) for record in records]))
