"""The subcommands of ``airfeel``, one small module each; :mod:`airfeel.cli` registers them.

A subcommand is a plain function: data goes to stdout with :func:`print`, log and progress to stderr through
the logger ``airfeel`` (whose level INFO is off under ``--quiet``), a user's mistake is a ``ValueError``.
"""
