"""Data sets by name, one file each: their files, sizes and hashes, and everywhere they can be had."""
