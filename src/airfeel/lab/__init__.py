"""Experiments on disk, from the bottom: run folders, one run, studies, experiments, many runs, reports."""
