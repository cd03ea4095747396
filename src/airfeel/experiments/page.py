"""The report's HTML: one file, no network, light and dark, from phone to wide screen."""

import json
from collections.abc import Sequence
from html import escape

from airfeel.experiments.charts import Drawing, javascript

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #5b6570; --line: #d7dce1; --back: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8eaed; --soft: #a4adb7; --line: #3a4149; --back: #15181c; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 60rem; font: 16px/1.5 system-ui, sans-serif;
  background: var(--back); color: var(--text); }
h1 { font-size: 1.6rem; margin: 0 0 1rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .2rem; }
p { margin: .2rem 0 .6rem; color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem;
  border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 0; } .chart { width: 100%; min-height: 380px; }
"""

# The browser itself then refuses every request; Vega compiles its expressions, hence unsafe-eval.
_POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline' 'unsafe-eval'"
)

# Drawn again when the colour scheme changes; the only menu entries are those that need no network.
_SCRIPT = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const read = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function draw() {
  const text = read("--text"), line = read("--line");
  const config = { background: "transparent", view: { stroke: "transparent" },
    axis: { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line },
    legend: { labelColor: text }, font: "system-ui, sans-serif" };
  const actions = { export: true, source: false, compiled: false, editor: false };
  for (const [id, spec] of Object.entries(FIGURES))
    vegaEmbed("#" + id, spec, { config, actions, renderer: "svg" });
}
dark.addEventListener("change", draw);
draw();
"""


def render(
    title: str, table: Sequence[Sequence[str]], drawings: Sequence[Drawing], notes: Sequence[str]
) -> str:
    """Return the whole page as one string."""
    specs = json.dumps({f"figure-{d.figure.name}": d.spec() for d in drawings}, separators=(",", ":"))
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            _table(table),
            *(_figure(drawing) for drawing in drawings),
            *(f"<p>{escape(note)}</p>" for note in notes),
            f"<script>{_inline(javascript())}</script>",
            f"<script>const FIGURES = {_inline(specs)};{_SCRIPT}</script>",
            "</body></html>\n",
        ]
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(drawing: Drawing) -> str:
    figure = drawing.figure
    hint = "Choose curves in the legend (shift for several)."
    return (
        f"<h2>{escape(figure.title)}</h2><p>{escape(figure.caption)} {hint}</p>"
        f'<figure><div class="chart" id="figure-{escape(figure.name)}"></div></figure>'
    )


def _inline(code: str) -> str:
    """Keep a script's own text from ending its element early."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
