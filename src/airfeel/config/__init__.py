"""The configuration of a run: typed keys, parts by name, TOML in and out, mistakes in one sentence."""

from airfeel.config.loading import build_config, load_config, parse_override, read_config
from airfeel.config.schema import Config

__all__ = ["Config", "build_config", "load_config", "parse_override", "read_config"]
