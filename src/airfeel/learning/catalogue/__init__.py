"""Data sets by name: their files, sizes and hashes, and everywhere they can be had."""
