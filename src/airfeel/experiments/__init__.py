"""Runs on disk: run directories that survive a crash, and the table over all of them."""
