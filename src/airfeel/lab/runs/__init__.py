"""One run: its folder, its checkpoints, how it is carried out and how it shows itself."""
