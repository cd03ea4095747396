"""The configuration of a run: typed keys, parts by name, TOML in and out, mistakes in one sentence."""

from airfeel.config.loading import ConfigLike, build_config, load_config, opened, parse_override, read_config
from airfeel.config.schema import Config

__all__ = [
    "Config",
    "ConfigLike",
    "build_config",
    "load_config",
    "opened",
    "parse_override",
    "read_config",
]
