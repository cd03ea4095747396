"""From a folder of results to a page one can open, send and print. Needs the extra ``report``.

The page, ``page.html.j2``, is one file: no network, light and dark, from phone to wide screen and paper. Its
policy lets the browser run the page's own scripts, known by their hashes, and nothing else.
"""

import json
import math
import os
import platform
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import airfeel
from airfeel import _files
from airfeel._checks import visible
from airfeel._extras import LazyModule
from airfeel._timing import Timer, duration
from airfeel.lab import store
from airfeel.lab.charts import drawable, javascript, vega_lite_version
from airfeel.lab.claims import NOT_REPRODUCED, NOT_RUN, REPRODUCED, STANDS, Verdict, judge, score, to_json
from airfeel.lab.curves import AnyDrawing, CurveDrawing
from airfeel.lab.exhibits import EXHIBITS, Chapter, is_figure
from airfeel.lab.exhibits.cost import COSTS, cost_cells
from airfeel.lab.exhibits.curves import chosen_figures
from airfeel.lab.figures import SHIPPED
from airfeel.lab.plan import Begun, ResultsFolder, check_target, shipped
from airfeel.lab.results import write_results, write_runs
from airfeel.lab.store import edited_between
from airfeel.lab.table import Results, RunSelection
from airfeel.lab.words import headline, opening, trained, word_columns

jinja2: Any = LazyModule("jinja2", "report", "the page needs")

# What JSON may hold and a page must not show as it is: the signs of HTML.
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}
# Class and sign of an outcome; all others are undecided. The sign serves those who see no colours.
BADGES = {REPRODUCED: ("good", "✓"), NOT_REPRODUCED: ("bad", "✗"), NOT_RUN: ("open", "–")}


@dataclass(frozen=True, slots=True)
class Report:
    """What was written, and what the page shows."""

    page: Path
    data: Sequence[Path]
    images: Sequence[Path]
    chapters: Sequence[Chapter]
    verdicts: Sequence[Verdict]
    left_out: Sequence[str]


def write_report(
    folder: Path,
    title: str = "airfeel results",
    target_accuracy: float | None = None,
    told: Callable[[str], None] = lambda words: None,
) -> Report:
    """Write page, tables, verdicts on claims, and figures as PNG, SVG and PDF into a results folder.

    They are ``report.html``, ``results.csv``, ``runs.csv``, ``claims.json`` and ``figures/``.

    Parameters
    ----------
    folder
        Holds ``runs/<name>-<hash>/`` as written by every command that trains, and ``experiments/<name>.toml``
        for the experiments that were begun. Runs that differ only in their seed become one curve: their mean,
        with a 95 % confidence band.
    title
        The page's heading.
    target_accuracy
        Tell for every curve what it takes to reach it.
    told
        Hears now and then how far it is.
    """
    target = check_target(target_accuracy)
    vega_lite_version()  # without the extra, this says so before anything is read
    results = ResultsFolder(folder)
    if results.labels():
        told(f"reading the runs in {folder}")
    begun, unknown = results.experiments()
    table = Results(results)
    alone, notes = loose_runs(table, {member.label for one in begun for member in one.members})
    notes += unknown + edited_between(run.settings for run in table.runs.values())
    parts = [table.of(one) for one in sorted(begun, key=_place)]
    shown = [*parts, *([table.loose(alone)] if alone else [])]
    chapters: list[Chapter] = []
    for one in shown:
        taken = {drawing.figure.name for chapter in chapters for drawing in chapter.drawings}
        chapters.append(make_chapter(replace(one, target=target), taken))
    verdicts = judge({one.experiment.name: one for one in parts if one.experiment and in_full(one)})
    kept = "every file is whole or as it was before, and the same command writes them all again"
    with store.explained(folder, "write the report to", kept):
        _files.below(folder, "figures").mkdir(exist_ok=True)
        images = _draw([drawing for chapter in chapters for drawing in chapter.drawings], folder, told)
        told("writing the page")
        # The page itself says what is amiss.
        data = [write_results(results, told=lambda note: None), write_runs(results)]
        if verdicts:
            data.append(folder / "claims.json")
            _files.write_atomically(data[-1], to_json(verdicts).encode())
        page = render(
            title,
            chapters,
            verdicts=verdicts,
            costs=_costs(parts),
            campaign=_campaign(folder),
            environment=_environment(),
            notes=notes,
        )
        _files.write_atomically(folder / "report.html", page.encode())
    return Report(folder / "report.html", data, images, chapters, verdicts, notes)


def loose_runs(results: Results, elsewhere: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the finished training runs of no experiment, and a sentence about each one left out.

    Those in ``elsewhere`` belong to experiments; they are named only where they are damaged.
    """
    folder, runs = results.folder, results.runs
    notes = folder.damaged()
    if not runs:
        raise folder.nothing(notes)
    found = []
    for label in folder.labels():
        if label in elsewhere or folder.damage(label):
            continue
        if label not in runs:
            notes.append(visible(f"{label}: not finished, left out"))
        elif "kind" in runs[label].summary:
            kind = runs[label].summary["kind"]
            notes.append(visible(f"{label}: a study ({kind}) of no known experiment, left out"))
        else:
            found.append(label)
    return found, notes


def make_chapter(shown: RunSelection, taken: Collection[str] = ()) -> Chapter:
    """Return all there is to see of some runs; names in ``taken`` belong to other figures."""
    experiment = shown.experiment
    planned = shown.missing + len(shown.members)
    missing = f"{shown.missing} of {planned} runs are missing; figures and tables show what there is."
    chapter = Chapter(
        name=experiment.name if experiment else "runs",
        title=experiment.title if experiment else "Single runs",
        caption=experiment.caption if experiment else "",
        headline=headline(shown),
        opening=opening(shown),
        trained=trained(shown),
        missing=missing if shown.missing else "",
        source=experiment.to_toml() if experiment else "",
    )
    for spec in chosen_figures(experiment):
        if spec.name in taken:
            spec = spec.model_copy(update={"name": f"{chapter.name}-{spec.name}"})
        chapter.put(EXHIBITS.get(spec.kind).target(shown, spec))
    for part in EXHIBITS.parts():
        if not is_figure(part):
            chapter.put(part.target(shown))
    return chapter


def in_full(shown: RunSelection) -> bool:
    """Whether a shipped experiment is complete, as long as it is shipped and with as many seeds.

    The paper's claims, and the notes on them, are about these sizes: nothing less can decide them.
    """
    found = shown.experiment
    if found is None or shown.missing or found.name not in SHIPPED:
        return False
    whole = shipped(found.name)
    return found.rounds == whole.rounds and len(found.seeds) >= len(whole.seeds)


def render(
    title: str,
    chapters: Sequence[Chapter],
    *,
    verdicts: Sequence[Verdict] = (),
    costs: Sequence[Sequence[str]] = (),
    campaign: str = "",
    environment: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Return the whole page as one string."""
    drawings = [drawing for chapter in chapters for drawing in chapter.drawings]
    curves = [drawing for drawing in drawings if isinstance(drawing, CurveDrawing)]
    figures = {drawing.figure.name: drawable(drawing.payload()) for drawing in drawings}
    style, scripts = _part("page.css"), [_code(javascript()), _code(_part("page.js"))]
    rules = {"default-src": "'none'", "base-uri": "'none'", "img-src": "data:", "style-src": _hash(style)}
    rules["script-src"] = " ".join(map(_hash, scripts))
    engine = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
    )
    engine.filters |= {"word_columns": word_columns, "pair": _pair, "number": _number, "badge": BADGES.get}
    template = engine.from_string(_part("page.html.j2"))
    seeds = {curve.seeds for drawing in curves for curve in drawing.curves}
    labels = "\n".join(name for drawing in curves for name in (*drawing.colours, *drawing.variants))
    content = {"title": title, "chapters": chapters, "seeds": seeds, "curves": curves}
    content |= {"verdicts": verdicts, "costs": costs, "campaign": campaign, "notes": notes}
    content |= {"environment": environment or {}, "score": score(verdicts), "stands": STANDS}
    policy = "; ".join(f"{name} {value}" for name, value in rules.items())
    content |= {"system": _part("system.svg"), "policy": policy, "style": style}
    # JSON in which nothing can end its element, or begin another.
    data = json.dumps(figures, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPED)
    first = template.render(**content, glossary=[], data="", scripts=[])
    words = _files.parse_toml(_part("glossary.toml"))["words"]
    glossary = [word for word in words if re.search(word["pattern"], f"{first}\n{labels}")]
    return str(template.render(**content, glossary=glossary, data=data, scripts=scripts))


def _draw(drawings: Sequence[AnyDrawing], folder: Path, told: Callable[[str], None]) -> list[Path]:
    """Write the figures; say how many there are, and now and then how many are done."""
    told("drawing the figures")
    images: list[Path] = []
    timer = Timer(len(drawings))
    for done, drawing in enumerate(drawings, 1):
        images += drawing.save(folder / "figures" / drawing.figure.name)
        timer.tell(done, told, f"figure {done} of {len(drawings)} is drawn")
    return images


def _place(begun: Begun) -> tuple[int, str]:
    """Return the place of an experiment on the page: the paper's figures first, one's own sweeps last."""
    name = begun.experiment.name
    return SHIPPED.index(name) if name in SHIPPED else len(SHIPPED), name


def _costs(parts: Sequence[RunSelection]) -> list[list[str]]:
    """Return one row per experiment, and a last one over all runs, each counted once."""
    rows = [[one.experiment.name, *cost_cells(one.every)] for one in parts if one.experiment]
    if len(parts) > 1:
        every = {run.folder: run for one in parts for run in one.every}
        rows.append(["all, shared runs counted once", *cost_cells(every.values())])
    return [["experiment", *COSTS], *rows] if rows else []


def _campaign(folder: Path) -> str:
    """Return in words how long the whole campaign took; empty where nobody noted it."""
    try:
        facts: dict[str, Any] = _files.parse_json(_files.read_text(folder / "campaign.json"))
        seconds, workers = float(facts["seconds"]), int(facts["workers"])
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return ""
    return f"Computed in {duration(seconds)} by {workers} worker{'' if workers == 1 else 's'}."


def _environment() -> dict[str, str]:
    """Return on what the page was made; neither the host nor a folder is among it."""
    try:
        lines = _files.read_bytes("/proc/cpuinfo", _files.SETTINGS).decode(errors="replace").splitlines()
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        lines, system = [], f"{platform.system()} {platform.release()}"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = next(iter(names), platform.processor() or platform.machine())
    return {
        "airfeel": airfeel.__version__,
        "Python": platform.python_version(),
        "NumPy": metadata.version("numpy"),
        "SciPy": metadata.version("scipy"),
        "processor": f"{processor}, {os.cpu_count()} cores",
        "operating system": f"{system} ({platform.machine()})",
    }


def _shown(value: Any) -> Any:
    """Return what the page says with control characters written out."""
    return visible(value, keep="\n") if type(value) is str else value


def _pair(drawings: Sequence[AnyDrawing]) -> list[AnyDrawing]:
    """Return two figures that stand beside one another: both about recovery; none where there are not two."""
    metrics = ("nmse_db", "cumulative_nmse_db")
    found = [
        d for d in drawings if d.figure.metric in metrics and isinstance(d, CurveDrawing) and not d.split
    ]
    return list(found) if len(found) == 2 else []


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−") if math.isfinite(value) else "-"


def _part(name: str) -> str:
    return _files.read_shipped("airfeel.lab", name)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _code(script: str) -> str:
    """Keep a script's own text from ending its element early; the browser hashes lines that end with LF."""
    safe = re.sub(r"<(?=/script|!--)", r"\\x3c", script, flags=re.IGNORECASE)
    return safe.replace("\r\n", "\n").replace("\r", "\n")
