"""The claims of the paper on the page: one row each with its verdict, the numbers behind it on demand."""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from airfeel.lab.report.claims import (
    INCOMPLETE,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    ClaimPart,
    Verdict,
)
from airfeel.lab.report.tables import html_table

# Class and sign of an outcome; all others are undecided. The sign serves those who see no colours.
_LOOKS = {REPRODUCED: ("good", "✓"), NOT_REPRODUCED: ("bad", "✗"), NOT_RUN: ("open", "–")}
_SHORT = {REPRODUCED: REPRODUCED, NOT_REPRODUCED: NOT_REPRODUCED, INCOMPLETE: "not run in full"}
_EXPLAINED = (
    "Reproduced: the 95 % interval over seeds lies wholly on the claimed side, in every comparison that the "
    "claim makes. Not reproduced: wholly on the other side, in any of them. Undecided: neither, or not all "
    "of it was run. Where a claim is about A-DSGD, a second verdict holds it against A-DSGD with an MMSE "
    "denoiser, a rival that knows as much about one round as TSA-GA does."
)
_CHANCE = (
    "Each verdict is given for itself: a claim that does not hold is called reproduced with a chance of at "
    "most 2.5 %, as all of its comparisons must hold, and one that does hold is called not reproduced with a "
    "chance of at most 2.5 % for each comparison. Over many claims such a mistake is to be expected. Beside "
    "the verdicts stands which of them Holm's correction for all claims leaves: that any of those is wrong "
    "has a chance of at most 5 %."
)
_STANDS = {True: "stands with Holm's correction", False: "may be chance by Holm's correction", None: ""}


def claims_section(verdicts: Sequence[Verdict]) -> str:
    """Return the table of all claims that something was run for."""
    head = "".join(f"<th>{text}</th>" for text in ("No.", "Claim", "Verdict", "Against A-DSGD, MMSE"))
    body = "".join(_rows(verdict) for verdict in verdicts)
    return (
        f'<section id="claims"><h2>Claims of the paper</h2>'
        f"<p><strong>{escape(score(verdicts))}</strong></p><details><summary>One by one</summary>"
        f"<p>{escape(_EXPLAINED)}</p><p>{escape(_CHANCE)}</p>"
        f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</details></section>"
    )


def score(verdicts: Sequence[Verdict]) -> str:
    """Return in words how many claims came out how."""
    outcomes = Counter(_SHORT.get(v.outcome, "undecided") for v in verdicts)
    counts = ", ".join(
        f"{outcomes[kind]} {kind}" for kind in (*_SHORT.values(), "undecided") if outcomes[kind]
    )
    decided = [v.stands for v in verdicts if v.stands is not None]
    stand = f" With Holm's correction {sum(decided)} of the {len(decided)} decided verdicts stand."
    return f"Of {len(verdicts)} claims: {counts}.{stand if decided else ''}"


def _rows(verdict: Verdict) -> str:
    """Return the claim with its verdicts, and a row below for the numbers."""
    rival = verdict.against_mmse
    beside = f'<td data-head="against MMSE">{badge(rival)}</td>' if rival else "<td></td>"
    note = f"<p>{escape(verdict.note)}</p>" if verdict.note else ""
    stands = f" <small>{escape(_STANDS[verdict.stands])}</small>" if verdict.stands is not None else ""
    numbers = _parts(verdict.parts)
    if verdict.mmse_parts:
        numbers += f"<p>Against the stronger rival:</p>{_parts(verdict.mmse_parts)}"
    claim = f"{escape(verdict.claim)} <small>({escape(verdict.place)})</small>{note}"
    return (
        f"<tr><td>{verdict.number}</td><td>{claim}</td><td>{badge(verdict.outcome)}{stands}</td>{beside}</tr>"
        f'<tr class="numbers"><td></td><td colspan="3"><details><summary>Numbers</summary>'
        f"<p>{escape(verdict.rule)}.</p>{numbers}</details></td></tr>"
    )


def badge(outcome: str) -> str:
    """Return an outcome with a sign and a colour."""
    kind, sign = _LOOKS.get(outcome, ("open", "?"))
    return f'<span class="verdict {kind}">{sign} {escape(outcome)}</span>'


def _parts(parts: Sequence[ClaimPart]) -> str:
    heading = ["comparison", "seeds", "mean", "95 % interval", "outcome"]
    rows = ([p.what, str(p.seeds), _number(p.value), _interval(p), p.outcome] for p in parts)
    return html_table([heading, *rows])


def _interval(part: ClaimPart) -> str:
    return f"{_number(part.low)} … {_number(part.high)}" if math.isfinite(part.low) else "-"


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−") if math.isfinite(value) else "-"
