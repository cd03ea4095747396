"""Measured profiles of gradients, one JSON file each; ``benchmarks/study_profiles.py`` makes them."""
