"""Whether parts of a user's own were edited: by the digests of their sources that ``config.toml`` keeps."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airfeel.config import mistakes
from airfeel.config.parts import SEAMS
from airfeel.experiments.runs import files


def edited_since(path: Path, toml: str) -> list[str]:
    """Return a sentence about each part whose source is not the one noted in ``path`` (``config.toml``)."""
    try:
        before = _sources(mistakes.flatten(files.parse_toml(files.read_text(path))))
    except (OSError, ValueError):
        return []
    after = _sources(mistakes.flatten(files.parse_toml(toml)))
    return [
        f"the source of {part} was edited since this run was begun: raise its revision if results change"
        for part, digest in after.items()
        if before.get(part, digest) != digest
    ]


def edited_between(every: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence about each part that runs with these settings do not share in one version."""
    versions: dict[str, set[str]] = {}
    for settings in every:
        for part, digest in _sources(settings).items():
            versions.setdefault(part, set()).add(digest)
    return [
        f"the source of {part} was edited between runs that are shown together ({len(digests)} versions)"
        for part, digests in versions.items()
        if len(digests) > 1
    ]


def _sources(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of every own part, by key and name."""
    found = {}
    for name, seam in SEAMS.items():
        digest = settings.get(f"identity.source.{name}")
        if digest is not None:
            found[f"{seam.key} = {settings.get(seam.key)!r}"] = str(digest)
    return found
