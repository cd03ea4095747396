"""Models by name, one file each: called with the shape of the data, a model is a task."""
