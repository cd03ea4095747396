"""The subcommands of ``airfeel``, one small module each; :mod:`airfeel.cli` registers them.

A subcommand is a plain function: data goes to stdout with :func:`show`, log and progress to stderr through
the logger ``airfeel`` (whose level INFO is off under ``--quiet``), a user's mistake is a ``ValueError``.
"""

from airfeel._checks import visible


def show(*lines: object) -> None:
    """Print to stdout at once, as text that cannot steer a terminal: names and labels may be anybody's."""
    print(visible("\n".join(map(str, lines)), keep="\n"), flush=True)
