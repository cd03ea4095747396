"""Tables over all runs of a folder: ``results.csv`` and ``runs.csv``, and the same for scripts.

The files are written without pandas. Renewing ``results.csv`` costs what has changed, not what is there:
``.results.json`` notes which bytes of the table came from which state of which run, so that a run whose files
are the same is not read again.
"""

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import airfeel
from airfeel import _checks, _files
from airfeel._extras import missing
from airfeel.lab import store
from airfeel.lab.plan import Begun, ResultsFolder
from airfeel.lab.store import left_out, log

_FROM_ROW = (
    *("round", "accuracy", "loss", "nmse_db", "symbols", "energy"),
    *("cumulative_nmse_db", "status", "downlink", "air_seconds", "downlink_seconds", "joules"),
)
COLUMNS = ("experiment", "scheme", "seed", *_FROM_ROW, "curve")
FIRST = ("run", "status", "rounds", "final_accuracy", "best_accuracy", "seconds")  # columns of runs.csv
_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes a cell for that begins so


class Source(NamedTuple):
    """Where lines of the table come from: an experiment (or none), a run, and the state of its files."""

    experiment: str | None
    curve: str | None
    label: str
    stamp: store.Stamp


class Block(NamedTuple):
    """Lines of the table, and what is wrong with a run without lines."""

    content: bytes
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
    left out and named on the logger ``airfeel``.
    """
    _checks.choice("per", per, ["round", "run"])
    try:
        import pandas
    except ImportError as error:
        raise missing("report", "a table is a pandas DataFrame: read_results needs") from error
    results = ResultsFolder(Path(folder))
    if per == "run":
        rows = list_runs(results)
        return pandas.DataFrame(rows, columns=_columns(rows))
    runs = [run for label in results.labels() if (run := results.run(label)) is not None]
    if not runs:
        raise results.nothing(results.damaged())
    for note in results.damaged():
        log.warning(note)
    facts = [{"run": run.folder.name, **run.settings} for run in runs]
    keys = dict.fromkeys(key for run, of in zip(runs, facts, strict=True) for key in (*of, *run.rows.keys))

    def column(key: str) -> Iterator[Any]:
        for run, of in zip(runs, facts, strict=True):
            recorded = key in run.rows.keys
            yield from run.rows.values(key) if recorded else repeat(of.get(key, math.nan), len(run.rows))

    return pandas.DataFrame({key: pandas.Series(list(column(key))) for key in keys})


def list_runs(results: ResultsFolder) -> list[dict[str, Any]]:
    """Return every run of a folder, finished or not, with all keys of its configuration by dotted name.

    ``status`` is finished, unfinished or damaged; only a finished run has settings and results. The final
    accuracy is the mean over the last tenth of the rounds, as in the report.
    """
    found = []
    for label in results.labels():
        run = results.run(label)
        if run is None:
            status = "damaged" if results.damage(label) else "unfinished"
            rounds = store.count_records(results.path / "runs" / label)
            found.append({"run": label, "status": status, "rounds": rounds})
            continue
        accuracies = [value for value in run.rows.values("accuracy") if value is not None]
        last = accuracies[len(accuracies) - math.ceil(len(accuracies) / 10) :]
        settings = {key: value for key, value in run.settings.items() if not key.startswith("identity.")}
        facts = {
            "run": label,
            "status": "finished",
            "rounds": len(run.rows),
            "final_accuracy": math.fsum(last) / len(last) if last else None,
            "best_accuracy": max(accuracies, default=None),
            "seconds": round(math.fsum(run.seconds.values()), 3) if run.seconds else None,
        }
        found.append(settings | facts)
    return found


def write_runs(results: ResultsFolder) -> Path:
    """Write ``runs.csv`` into a results folder."""
    rows, path = list_runs(results), results.path / "runs.csv"
    heading = _columns(rows)
    table = csv_table([heading, *([row.get(key) for key in heading] for row in rows)])
    with store.explained(results.path):
        _files.write_atomically(path, table)
    return path


def write_results(results: ResultsFolder, told: Callable[[str], None] = log.warning) -> Path:
    """Write ``results.csv``: one line per round of every finished run, in an order that never varies.

    A run that several experiments share has lines in each of them; one that belongs to none is listed under
    its name. ``curve`` is what the experiment calls the run's curve: two curves may have the same scheme with
    other options. The keys that any experiment sweeps are columns too. ``told`` hears which runs are left
    out as damaged.
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
            if (stamp := results.stamp(label)) is not None:
                source = Source(experiment, curve, label, stamp)
                blocks[source] = before.get(source) or _block(results, source, keys)
        table = heading + b"".join(block.content for block in blocks.values())
        for steps in ([], ["experiments"], ["figures"]):
            with suppress(_files.Unwritable):  # of a linked folder, nothing is ours
                _files.remove_abandoned(_files.below(out, *steps))
        _files.write_atomically(path, table)
        rows = [[*source, len(block.content), block.damage] for source, block in blocks.items()]
        facts = {"airfeel": airfeel.__version__, "sha256": _sha256(table), "blocks": rows}
        _files.write_atomically(index, json.dumps(facts, separators=(",", ":")).encode())
    runs = {source.label: block for source, block in blocks.items()}
    for label, block in runs.items():
        if block.damage:
            told(left_out(label, block.damage))
    return path


def csv_table(rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as CSV; what does not exist is an empty cell."""
    text = io.StringIO()
    cells = ([_cell(value) if isinstance(value, str) else value for value in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue().encode()


def _cell(value: str) -> str:
    """Return a cell that no spreadsheet computes: an apostrophe marks what begins as a formula does."""
    text = _checks.visible(value)
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of ``runs.csv``: results first, then keys."""
    return [*FIRST, *sorted({key for row in rows for key in row} - set(FIRST))]


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


def _block(results: ResultsFolder, source: Source, keys: Sequence[str]) -> Block:
    """Return the lines of one run, one per round; none of one that is damaged."""
    run = results.run(source.label)
    if run is None:
        return Block(b"", str(results.damage(source.label) or ""))
    settings = run.settings
    head = [source.experiment or settings.get("name") or "run", settings.get("scheme"), settings.get("seed")]
    tail = [source.curve, *(settings.get(key) for key in keys)]
    records = zip(*(run.rows.values(key) for key in _FROM_ROW), strict=True)
    return Block(csv_table([*head, *record, *tail] for record in records))


def _read_blocks(path: Path, index: Path, heading: bytes) -> dict[Source, Block]:
    """Return the lines of the present table by source; none where table, index and heading do not fit."""
    try:
        table, facts = _files.read_bytes(path), _files.parse_json(_files.read_text(index, _files.LIST))
        known = facts["airfeel"], facts["sha256"]
        if known != (airfeel.__version__, _sha256(table)) or not table.startswith(heading):
            return {}
        found, place = {}, len(heading)
        for experiment, curve, label, stamp, length, damage in facts["blocks"]:
            block = Block(table[place : place + length], str(damage))
            found[Source(experiment, curve, label, tuple(stamp))] = block
            place += length
        return found if place == len(table) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
