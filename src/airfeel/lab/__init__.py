"""Experiments on disk, from the bottom: one run, studies of theory and gradients, many runs, reports."""
