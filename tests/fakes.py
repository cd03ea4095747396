"""Results that nobody computed: run folders with plausible courses, for tests of what is made from them."""

import dataclasses
import hashlib
import json
import tomllib

import numpy as np
import pandas

from airfeel.config.identity import recorded_digest
from airfeel.config.mistakes import flatten
from airfeel.lab import store
from airfeel.lab.plan import Begun, Member, ResultsFolder, remember_experiment
from airfeel.lab.rundir import open_run
from airfeel.lab.store import FinishedRun, RecordColumns
from airfeel.lab.table import Results, RunSelection, make_table
from airfeel.simulation.records import Record

EMPTY = dict.fromkeys(field.name for field in dataclasses.fields(Record))  # of a record
# Final accuracy and steepness: what a scheme loses, and how fast it learns.
COURSES = {
    "dense": (0.907, 12),
    "error_free": (0.905, 12),
    "tsa_ga_tuned": (0.902, 13),
    "scheduled": (0.9, 13),
    "common_k": (0.898, 14),
    "tsa_ga": (0.885, 16),
    "tsa_ga_no_support": (0.86, 22),
    "tsa_ga_no_amplitude": (0.85, 24),
    "a_dsgd_mmse": (0.82, 30),
    "turbo_cs": (0.8, 32),
    "a_dsgd": (0.78, 36),
}


def rows(config):
    """Return the records of a training run as it might have been."""
    rng = np.random.default_rng(config.seed)
    final, slowness = COURSES[config.scheme]
    radio = config.scheme not in ("dense", "error_free")
    ratio = config.uplink.ratio if radio else 0.2
    final -= 0.02 * abs(np.log10(ratio / 0.1)) + (0.03 if config.partition.kind == "classes" else 0)
    uses = round(7850 * ratio) if radio else 0
    for round_ in range(1, config.rounds + 1):
        noise = rng.normal(0, 0.006)
        accuracy = (
            final - (final - 0.1) * np.exp(-round_ / slowness * config.devices.local_steps**0.3) + noise
        )
        facts = EMPTY | {"round": round_, "accuracy": round(accuracy, 4), "loss": 2.3 * (1 - accuracy) + 0.05}
        facts |= {"symbols": uses * round_, "energy": config.uplink.power * round_ if radio else 0.0}
        facts["nmse_db"] = -20 * final + 8 * np.exp(-round_ / 30) + rng.normal(0, 0.7) if radio else None
        facts["cumulative_nmse_db"] = -30 * final if radio else None
        facts["status"] = status(config.scheme, round_)
        yield facts


def status(scheme, round_):
    """Return how an iteration ended: at A-DSGD alone, every fifth at the limit and every tenth diverged."""
    if scheme in ("dense", "error_free", "common_k", "scheduled"):
        return None
    ended = "diverged" if round_ % 10 == 0 else "iteration limit" if round_ % 5 == 0 else "converged"
    return ended if scheme == "a_dsgd" else "converged"


def write_run(config, out, finish=True, found=None):
    """Write the folder of one training run, with these records, or with plausible ones."""
    with open_run(config, out) as folder:
        found = list(rows(config)) if found is None else found
        folder.rounds.write_text("".join(json.dumps(row) + "\n" for row in found))
        times = ({"round": row["round"], "seconds": 0.05} for row in found)
        folder.timings.write_text("".join(json.dumps(time) + "\n" for time in times))
        if finish:
            folder.finish({})


def write_experiment(experiment, out, missing=0):
    """Write all runs of an experiment but the last few."""
    runs = experiment.runs()
    remember_experiment(experiment, out, runs)
    for run in runs[: len(runs) - missing]:
        if not (out / "runs" / run.label).exists():
            write_run(run.config, out)


def seal(path):
    """Write the manifest of a run once more, as if all its files were what the run wrote."""
    summary = json.loads((path / "summary.json").read_text())
    summary["rounds_sha256"] = hashlib.sha256((path / "rounds.jsonl").read_bytes()).hexdigest()
    content = json.dumps(summary).encode()
    (path / "summary.json").write_bytes(content)
    (path / "manifest.json").write_bytes(store.compose_manifest(path, content))


def rewrite(path, edit):
    """Edit the configuration of a finished run, as if it had been that from the start; return the folder."""
    text = edit((path / "config.toml").read_text())
    (path / "config.toml").write_text(text)
    digest = recorded_digest(flatten(tomllib.loads(text)))
    new = path.rename(path.with_name(f"{path.name.rpartition('-')[0]}-{digest}"))
    for listed in path.parent.parent.glob("experiments/*.json"):
        listed.write_text(listed.read_text().replace(path.name, new.name))
    seal(new)
    return new


def draw_nothing(monkeypatch):
    """Let commands do everything but pictures, which take most of the time and read nothing."""
    for module in ("charts", "curves"):
        monkeypatch.setattr(f"airfeel.lab.{module}.save_images", lambda spec, column, stem: [])
    for function in ("_page_spec", "_paper_spec"):
        monkeypatch.setattr(f"airfeel.lab.curves.CurveDrawing.{function}", lambda *given, **options: {})
    monkeypatch.setattr("airfeel.lab.studies.inspection.draw_inspection", lambda *given: [])


def collected(experiment, out):
    """Return what a folder has of an experiment, whether or not it was remembered there."""
    members = [Member(run.curve, run.variant, run.config.seed, run.label) for run in experiment.runs()]
    return Results(ResultsFolder(out)).of(Begun(experiment, members))


def selection(experiment, lines):
    """Return runs by seed for every curve and variant as the report sees them."""
    members = [(*line, seed, f"{line}-{seed}") for line, runs in lines.items() for seed in runs]
    runs = {name: lines[curve, variant][seed] for curve, variant, seed, name in members}
    listed = pandas.DataFrame(members, columns=["curve", "variant", "seed", "run"])
    return RunSelection(experiment, listed, make_table(runs), runs)


def finished(rows, folder=None):
    """Return a finished run with these records."""
    timings = None if folder is None else folder / "timings.jsonl"
    noted = timings is not None and timings.exists()
    return FinishedRun(folder, {}, RecordColumns(rows), timings=timings.read_bytes() if noted else b"")
