"""Tables over all finished runs of a folder: ``results.csv``, and the same for scripts.

Renewing ``results.csv`` costs what has changed, not what is there: ``.results.json`` notes which bytes of the
table came from which state of which run, so that a run whose files are the same is not read again.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import airfeel
from airfeel import _checks, _files
from airfeel.lab import store
from airfeel.lab.csv_table import csv_table
from airfeel.lab.folder import Begun, ResultsFolder
from airfeel.lab.runs_table import columns, list_runs
from airfeel.lab.store import FinishedRun, left_out, not_verified

_SINCE_0_2 = ("cumulative_nmse_db", "status", "downlink", "air_seconds", "joules")
_FROM_ROW = ("round", "accuracy", "loss", "nmse_db", "symbols", "energy", *_SINCE_0_2)
COLUMNS = ("experiment", "scheme", "seed", *_FROM_ROW, "curve")

_log = logging.getLogger("airfeel")


class Source(NamedTuple):
    """Where lines of the table come from: an experiment (or none), a run, and the state of its files."""

    experiment: str | None
    curve: str | None
    label: str
    stamp: store.Stamp


class Block(NamedTuple):
    """Lines of the table, whether a manifest vouches for them, and what is wrong with a run without lines."""

    content: bytes
    verified: bool = True
    damage: str = ""


def read_results(folder: str | Path, per: str = "round") -> Any:
    """Return what all runs below a results folder came to as a pandas DataFrame.

    There is one row per round of every finished run; or, with ``per = "run"``, one row per run, as in
    ``runs.csv``: its name, status, rounds, final and best accuracy, seconds, and all keys.
    By round, beside the columns of a record (:class:`airfeel.Record`), ``run`` is the name of the run's
    folder, and every key of its configuration is a column, such as ``scheme``, ``seed`` and ``uplink.ratio``;
    where both have the same name, it is the record's. Runs of schemes that are not installed here are read
    like all others: nothing that a file names is imported.

    Every file is held against the manifest of its run, which finds damage but not forgery. A damaged run is
    left out and named on the logger ``airfeel``, and so are runs of version 0.1, which have no manifest.
    """
    _checks.choice("per", per, ["round", "run"])
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "read_results needs pandas: pip install pandas; without it, "
            "airfeel.lab.results.list_results returns the same as a list of dictionaries"
        ) from error
    if per == "run":
        runs = list_runs(ResultsFolder(Path(folder)))
        return pandas.DataFrame(runs, columns=columns(runs))
    return pandas.DataFrame(list_results(folder))


def list_results(folder: str | Path) -> list[dict[str, Any]]:
    """Return what :func:`read_results` does as a list with one dictionary per round."""
    results = ResultsFolder(Path(folder))
    runs = [run for label in results.labels() if (run := results.run(label)) is not None]
    damaged = [left_out(label, damage) for label in results.labels() if (damage := results.damage(label))]
    if not runs:
        nothing = f"{folder}: has no finished run under {Path(folder) / 'runs'}"
        raise ValueError("\n".join([nothing, *damaged]))
    for note in damaged + not_verified([run.folder.name for run in runs if not run.verified]):
        _log.warning(note)
    return [{"run": run.folder.name, **run.settings, **row} for run in runs for row in run.rows]


def write_results(results: ResultsFolder, told: Callable[[str], None] = _log.warning) -> Path:
    """Write ``results.csv``: one line per round of every finished run, in an order that never varies.

    A run that several experiments share has lines in each of them; one that belongs to none is listed under
    its name. ``curve`` is what the experiment calls the run's curve: two curves may have the same scheme with
    other options. The keys that any experiment sweeps are columns too. ``told`` hears which runs are left
    out as damaged, and which are there though nobody can verify them.
    """
    out = results.path
    path, index = out / "results.csv", out / ".results.json"
    with store.explained(out), _files.locked(out / ".results.lock", wait=True):
        begun, _ = results.experiments()
        keys = list(dict.fromkeys(key for one in begun for key in one.experiment.swept()))
        heading = csv_table([[*COLUMNS, *keys]])
        before = _read_blocks(path, index, heading)
        blocks: dict[Source, Block] = {}
        for experiment, curve, label in _places(begun, results.labels()):
            stamp = results.stamp(label)
            if stamp is None:
                continue
            source = Source(experiment, curve, label, stamp)
            known = before.get(source)
            blocks[source] = _block(results, source, keys) if known is None else known
        table = heading + b"".join(block.content for block in blocks.values())
        for name in (path.name, index.name):
            store.remove_leftovers(out, f"{name}*")
        for steps in ([], ["experiments"], ["figures"]):
            with suppress(_files.Unwritable):  # of a linked folder, nothing is ours
                _files.remove_abandoned(_files.below(out, *steps))
        _files.write_atomically(path, table)
        _files.write_atomically(index, _index(blocks, table))
    for note in _notes(blocks):
        told(note)
    return path


def _places(begun: Sequence[Begun], labels: Sequence[str]) -> Iterator[tuple[str | None, str | None, str]]:
    """Yield experiment, curve and run in the order of the table: experiments by name, then runs of none.

    A run that several curves or variants of an experiment share stands there once, in the first of them.
    """
    present, alone = set(labels), dict.fromkeys(labels)
    for one in begun:
        curves: dict[str, str] = {}
        for member in one.members:
            curves.setdefault(member.label, member.curve)
        for label, curve in curves.items():
            alone.pop(label, None)
            if label in present:
                yield one.experiment.name, curve, label
    for label in alone:
        yield None, None, label


def _notes(blocks: Mapping[Source, Block]) -> list[str]:
    """Return what is to be said about runs, each once."""
    runs = {source.label: block for source, block in blocks.items()}
    damaged = [left_out(label, block.damage) for label, block in runs.items() if block.damage]
    return damaged + not_verified([label for label, block in runs.items() if not block.verified])


def _block(results: ResultsFolder, source: Source, keys: Sequence[str]) -> Block:
    """Return the lines of one run, none of one that is damaged."""
    run = results.run(source.label)
    if run is None:
        return Block(b"", damage=str(results.damage(source.label) or ""))
    return Block(_lines(run, source, keys), run.verified)


def _lines(run: FinishedRun, source: Source, keys: Sequence[str]) -> bytes:
    """Return one line per round."""
    settings = run.settings
    head = [source.experiment or settings.get("name") or "run", settings.get("scheme"), settings.get("seed")]
    tail = [source.curve, *(settings.get(key) for key in keys)]
    return csv_table([*head, *(row.get(column) for column in _FROM_ROW), *tail] for row in run.rows)


def _index(blocks: Mapping[Source, Block], table: bytes) -> bytes:
    """Return which bytes of the table came from where."""
    rows = [[*source, len(block.content), *block[1:]] for source, block in blocks.items()]
    facts = {"airfeel": airfeel.__version__, "sha256": hashlib.sha256(table).hexdigest(), "blocks": rows}
    return json.dumps(facts, separators=(",", ":")).encode()


def _read_blocks(path: Path, index: Path, heading: bytes) -> dict[Source, Block]:
    """Return the lines of the present table by source; none where table, index and heading do not fit."""
    try:
        table, facts = _files.read_bytes(path), _files.parse_json(_files.read_text(index, _files.LIST))
        known = (facts["airfeel"], facts["sha256"])
        if known != (airfeel.__version__, hashlib.sha256(table).hexdigest()) or not table.startswith(heading):
            return {}
        found, place = {}, len(heading)
        for experiment, curve, label, stamp, length, verified, damage in facts["blocks"]:
            block = Block(table[place : place + length], bool(verified), str(damage))
            found[Source(experiment, curve, label, tuple(stamp))] = block
            place += length
        return found if place == len(table) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
