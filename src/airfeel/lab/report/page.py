"""The report's HTML: one file, no network, light and dark, from phone to wide screen and paper."""

from __future__ import annotations  # imports for type checkers alone

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any

from airfeel._checks import visible
from airfeel._files import read_shipped
from airfeel.lab.report.charts import Drawing, drawable, javascript
from airfeel.lab.report.claims import Verdict
from airfeel.lab.report.claims_html import claims_section
from airfeel.lab.report.curves import CurveDrawing
from airfeel.lab.report.glossary import used
from airfeel.lab.report.tables import html_table

if TYPE_CHECKING:
    from airfeel.lab.report.exhibits import Exhibit, Table

# What JSON may hold and a page must not show as it is: the signs of HTML.
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}
_PAIR = ("nmse_db", "cumulative_nmse_db")
_HINT = (
    "Click in a legend to hide or show, double click for one alone. Drag a plot to move it; zoom with Ctrl "
    "and wheel, or with the buttons."
)
_BANDS = " Bands are 95 % confidence intervals over seeds."
_TWO = " Where there are two seeds only, the band goes from one to the other."


@dataclass(frozen=True, slots=True)
class Content:
    """Everything the page says."""

    title: str
    exhibits: Sequence[Exhibit]
    verdicts: Sequence[Verdict] = ()
    costs: Sequence[Sequence[str]] = ()
    campaign: str = ""
    environment: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()


def render(content: Content) -> str:
    """Return the whole page as one string."""
    drawings = [drawing for exhibit in content.exhibits for drawing in exhibit.drawings]
    figures = {d.figure.name: drawable(d.payload()) for d in drawings}
    body = _head(content) + [_exhibit(each, not place) for place, each in enumerate(content.exhibits)]
    labels = [name for d in drawings if isinstance(d, CurveDrawing) for name in (*d.colours, *d.variants)]
    body += [_glossary([*body, *labels]), *_foot(content)]
    style, scripts = _part("page.css"), [_code(javascript()), _code(_part("page.js"))]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, scripts)}">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(visible(content.title))}</title><style>{style}</style></head><body>",
            *(visible(part, keep="\n") for part in body),
            f'<script id="figures" type="application/json">{_data(figures)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def _head(content: Content) -> list[str]:
    """Return what a stranger sees first: headline, main figure, picture of the system, what was trained."""
    first = content.exhibits[0] if content.exhibits else None
    parts = [f'<p class="kicker">{escape(content.title)}</p>'] if first and first.headline else []
    parts.append(f"<h1>{_unbroken((first and first.headline) or content.title)}</h1>")
    if first and first.headline and first.drawings:
        words = f"<p>{escape(first.trained)}</p>" if first.trained else ""
        links = '<p><a href="#glossary">What the words mean</a></p>'
        beside = f"<aside>{_part('system.svg')}{words}{links}</aside>"
        parts.append(f'<div class="first">{_figure(first.drawings[0])}{beside}</div>')
    if len(content.exhibits) > 1:
        parts.append(_contents(content))
    return [*parts, *_hint(content)]


def _hint(content: Content) -> list[str]:
    """Return how curves are read and moved, where there are any."""
    drawn = [one for exhibit in content.exhibits for one in exhibit.drawings if isinstance(one, CurveDrawing)]
    seeds = {mean.seeds for one in drawn for curve in one.curves for mean in curve.points}
    bands = _BANDS * (max(seeds, default=1) > 1) + _TWO * (2 in seeds)
    return [f'<p class="hint">{escape(_HINT + bands)}</p>'] if drawn else []


def _contents(content: Content) -> str:
    """Return links to all parts of the page."""
    named = [(f"experiment-{exhibit.name}", exhibit.title) for exhibit in content.exhibits]
    named += [("glossary", "Glossary")]
    named += [("claims", "Claims of the paper")] if content.verdicts else []
    named += [("costs", "Computing time")] if content.costs else []
    named += [("environment", "Environment and data")]
    links = "".join(f'<li><a href="#{escape(place)}">{escape(title)}</a></li>' for place, title in named)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _exhibit(exhibit: Exhibit, first: bool) -> str:
    """Return one part of the page; the first one's headline and main figure are at the top already."""
    top = first and bool(exhibit.headline and exhibit.drawings)
    parts = [f'<section id="experiment-{escape(exhibit.name)}"><h2>{escape(exhibit.title)}</h2>']
    parts += [f'<p class="lead">{_unbroken(exhibit.headline)}</p>'] if exhibit.headline and not top else []
    parts += [f"<p>{escape(exhibit.caption)}</p>"] if exhibit.caption else []
    parts += [f'<p class="missing">{escape(exhibit.missing)}</p>'] if exhibit.missing else []
    parts += [_titled(table) for table in exhibit.headlines]
    parts += _figures(exhibit.drawings[1:] if top else exhibit.drawings)
    parts += [_titled(table) for table in exhibit.tables]
    if exhibit.settings:
        words = "".join(_titled(table) for table in exhibit.settings)
        source = f"<h3>As a file</h3><pre>{escape(exhibit.source)}</pre>" if exhibit.source else ""
        parts.append(f"<details><summary>Settings of every run</summary>{words}{source}</details>")
    if exhibit.costs:
        parts.append(f"<details><summary>Computing time</summary>{html_table(exhibit.costs)}</details>")
    return "\n".join([*parts, "</section>"])


def _figures(drawings: Sequence[Drawing | CurveDrawing]) -> list[str]:
    """Return figures below one another, two that are about recovery beside one another."""
    pair = [d for d in drawings if d.figure.metric in _PAIR and isinstance(d, CurveDrawing) and not d.split]
    if len(pair) != 2:
        return [_figure(drawing) for drawing in drawings]
    others = [_figure(drawing) for drawing in drawings if drawing not in pair]
    return [*others, f'<div class="pair">{"".join(map(_figure, pair))}</div>']


def _unbroken(text: str) -> str:
    """Return text for the page in which no line ends between a number and its percent sign."""
    return escape(text).replace(" %", "&nbsp;%")


def _glossary(texts: Sequence[str]) -> str:
    """Return what the words on the page mean."""
    words = "".join(f"<dt>{escape(w.name)}</dt><dd>{escape(w.meaning)}</dd>" for w in used(texts))
    return f'<section id="glossary"><h2>Glossary</h2><dl>{words}</dl></section>' if words else ""


def _figure(drawing: Drawing | CurveDrawing) -> str:
    figure = drawing.figure
    return (
        f'<figure id="figure-{escape(figure.name)}"><figcaption><h3>{escape(figure.title)}</h3>'
        f"<p>{escape(figure.caption)}</p></figcaption></figure>"
    )


def _foot(content: Content) -> list[str]:
    parts = [claims_section(content.verdicts)] if content.verdicts else []
    if content.costs:
        took = content.campaign and f"<p>{escape(content.campaign[0].upper() + content.campaign[1:])}.</p>"
        table = html_table(content.costs)
        parts.append(f'<section id="costs"><h2>Computing time</h2>{took}{table}</section>')
    if content.environment:
        facts = "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in content.environment
        )
        head = "<h2>Environment</h2><p>Where this page was made.</p>"
        parts.append(f'<section id="environment">{head}<dl>{facts}</dl></section>')
    parts.append(
        '<section id="data"><h2>Data</h2><p>Every round of every finished run: '
        '<a href="results.csv">results.csv</a>, beside this page. '
        'One line for each run, with all settings: <a href="runs.csv">runs.csv</a>. '
        "Each figure has its own numbers as CSV.</p>"
    )
    parts += [f"<p>{escape(note)}</p>" for note in content.notes]
    return [*parts, "</section>"]


def _titled(table: Table) -> str:
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f"<h3>{escape(table.title)}</h3>{note}{html_table(table.rows)}"


@cache
def _part(name: str) -> str:
    return read_shipped("airfeel.lab.report", f"web/{name}")


def _policy(style: str, scripts: Sequence[str]) -> str:
    """Return what the browser may do with the page: run these scripts, and ask nobody for anything."""
    rules = {"default-src": "'none'", "base-uri": "'none'", "img-src": "data:", "style-src": _hash(style)}
    rules["script-src"] = " ".join(map(_hash, scripts))
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _data(value: Any) -> str:
    """Return JSON in which nothing can end its element, or begin another."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPED)


def _code(script: str) -> str:
    """Keep a script's own text from ending its element early; the browser hashes lines that end with LF."""
    safe = re.sub(r"<(?=/script|!--)", r"\\x3c", script, flags=re.IGNORECASE)
    return safe.replace("\r\n", "\n").replace("\r", "\n")
