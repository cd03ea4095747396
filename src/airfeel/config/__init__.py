"""The configuration of a run: typed keys, named schemes, TOML in and out, mistakes in one sentence."""

from airfeel.config.loading import Config, build_config, load_config, parse_override
from airfeel.config.schemes import SCHEMES, Scheme

__all__ = ["SCHEMES", "Config", "Scheme", "build_config", "load_config", "parse_override"]
