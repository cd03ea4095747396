"""Exhibits: each file here makes figures or tables of a selection of runs, and is found by itself.

An exhibit is a registered function that yields drawings and tables. One with an argument ``spec`` is a kind
of figure that an experiment's file may name; any other is asked once for every part of the page. Other
packages add theirs by entry points of the group ``airfeel.exhibits``. Files in a results folder name
only what is registered: nothing else is imported for them.
"""

from __future__ import annotations  # imports for type checkers alone

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airfeel.registry import Part, Registry

if TYPE_CHECKING:
    from airfeel.lab.curves import AnyDrawing

EXHIBITS = Registry("figures.kind", "exhibits", "lab.exhibits")


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text under a title, the first row being the heading, and in which section it stands.

    Sections are first (before the figures), tables (behind them), settings and costs.
    """

    title: str
    rows: list[list[str]]
    note: str = ""
    section: str = "tables"


@dataclass(frozen=True, slots=True)
class Chapter:
    """One part of the page: an experiment, or the runs that belong to none."""

    name: str
    title: str
    caption: str = ""
    headline: str = ""
    """its title, and what came out"""
    opening: str = ""
    """who learned what, over which channel"""
    trained: str = ""
    """the same in a paragraph of plain sentences"""
    missing: str = ""
    """in words, how many runs are not there"""
    drawings: list[AnyDrawing] = field(default_factory=list)
    tables: list[TextTable] = field(default_factory=list)
    source: str = ""
    """the experiment as a file"""

    def section(self, *names: str) -> list[TextTable]:
        """Return the tables of some sections."""
        return [table for table in self.tables if table.section in names]

    def put(self, found: Iterable[Any]) -> None:
        """Add what an exhibit yields: drawings, and tables that have more than a heading."""
        for one in found:
            if one is not None and not isinstance(one, TextTable):
                self.drawings.append(one)
            elif one is not None and len(one.rows) > 1:
                self.tables.append(one)


def is_figure(part: Part) -> bool:
    """Whether an exhibit is a kind of figure that an experiment's file may name."""
    return "spec" in inspect.signature(part.target).parameters


def figure_kinds() -> list[str]:
    """Return the kinds of figures that there are."""
    return [part.name for part in EXHIBITS.parts() if is_figure(part)]
