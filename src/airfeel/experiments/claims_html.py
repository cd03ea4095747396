"""The claims of the paper on the page: one row each with its verdict, the numbers behind it on demand."""

import math
from collections.abc import Sequence
from html import escape

from airfeel.experiments.claims import NOT_REPRODUCED, NOT_RUN, REPRODUCED, Part, Verdict

# Class and sign of an outcome; all others are undecided. The sign serves those who see no colours.
_LOOKS = {REPRODUCED: ("good", "✓"), NOT_REPRODUCED: ("bad", "✗"), NOT_RUN: ("open", "–")}
_EXPLAINED = (
    "Reproduced: the 95 % interval over seeds lies wholly on the claimed side. Not reproduced: wholly on the "
    "other. Undecided: neither. Where a claim is about A-DSGD, a second verdict holds it against A-DSGD with "
    "an MMSE denoiser, a rival that knows as much about one round as TSA-GA does."
)


def claims_section(verdicts: Sequence[Verdict]) -> str:
    """Return the table of all claims that something was run for."""
    head = "".join(f"<th>{text}</th>" for text in ("No.", "Claim", "Verdict", "Against A-DSGD, MMSE"))
    body = "".join(_row(verdict) for verdict in verdicts)
    return (
        f'<section id="claims"><h2>Claims of the paper</h2><p>{escape(_EXPLAINED)}</p>'
        f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></section>'
    )


def _row(verdict: Verdict) -> str:
    beside = (
        f'<td data-head="against MMSE">{badge(verdict.against_mmse)}</td>'
        if verdict.against_mmse
        else "<td></td>"
    )
    note = f"<p>{escape(verdict.note)}</p>" if verdict.note else ""
    numbers = _parts(verdict.parts)
    if verdict.mmse_parts:
        numbers += f"<p>Against the stronger rival:</p>{_parts(verdict.mmse_parts)}"
    claim = f"{escape(verdict.claim)} <small>({escape(verdict.place)})</small>"
    return (
        f"<tr><td>{verdict.number}</td><td>{claim}{note}"
        f"<details><summary>Numbers</summary><p>Rule: {escape(verdict.rule)}</p>{numbers}</details></td>"
        f"<td>{badge(verdict.outcome)}</td>{beside}</tr>"
    )


def badge(outcome: str) -> str:
    """Return an outcome with a sign and a colour."""
    kind, sign = _LOOKS.get(outcome, ("open", "?"))
    return f'<span class="verdict {kind}">{sign} {escape(outcome)}</span>'


def _parts(parts: Sequence[Part]) -> str:
    head = "".join(f"<th>{text}</th>" for text in ("comparison", "mean", "95 % interval", "outcome"))
    body = "".join(
        f"<tr><td>{escape(part.what)}</td><td>{_number(part.value)}</td><td>{_interval(part)}</td>"
        f"<td>{escape(part.outcome)}</td></tr>"
        for part in parts
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _interval(part: Part) -> str:
    return f"{_number(part.low)} … {_number(part.high)}" if math.isfinite(part.low) else "-"


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−") if math.isfinite(value) else "-"
