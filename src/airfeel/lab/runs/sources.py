"""Whether what a run reads has changed: own parts by their sources, and files that its options name.

The table ``[identity]`` of ``config.toml`` keeps the digests of both.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airfeel.config import mistakes
from airfeel.lab.runs import files
from airfeel.registry import SEAMS

_CONTENT = "identity.content."


def edited_since(path: Path, toml: str) -> list[str]:
    """Return a sentence about each part whose source is not the one noted in ``path`` (``config.toml``)."""
    return [
        f"the source of {part} was edited since this run was begun: raise its revision if results change"
        for part in _differing(path, toml, _sources)
    ]


def refilled_since(path: Path, toml: str) -> list[str]:
    """Return the keys, with the files they name, whose content is not the one noted in ``path``."""
    return _differing(path, toml, _contents)


def edited_between(every: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence about each part or file that runs with these settings do not share in one version."""
    versions: dict[str, set[str]] = {}
    for settings in every:
        for part, digest in _sources(settings).items():
            versions.setdefault(f"source of {part} was edited", set()).add(digest)
        for file, digest in _contents(settings).items():
            versions.setdefault(f"content of {file} was changed", set()).add(digest)
    return [
        f"the {what} between runs that are shown together ({len(digests)} versions)"
        for what, digests in versions.items()
        if len(digests) > 1
    ]


def _differing(path: Path, toml: str, digests: Any) -> list[str]:
    """Return what has another digest now than in a file of settings; nothing where that cannot be read."""
    try:
        before = digests(mistakes.flatten(files.parse_toml(files.read_text(path))))
    except (OSError, ValueError):
        return []
    after = digests(mistakes.flatten(files.parse_toml(toml)))
    return [name for name, digest in after.items() if before.get(name, digest) != digest]


def _sources(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of every own part, by key and name."""
    found = {}
    for name, registry in SEAMS.items():
        digest = settings.get(f"identity.source.{name}")
        if digest is not None:
            found[f"{registry.key} = {settings.get(registry.key)!r}"] = str(digest)
    return found


def _contents(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of every file that an option names, by key and path."""
    keys = [key.removeprefix(_CONTENT) for key in settings if key.startswith(_CONTENT)]
    return {f"{key} = {settings.get(key)!r}": str(settings[_CONTENT + key]) for key in keys}
