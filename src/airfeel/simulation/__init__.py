"""A whole run in memory: the parts a configuration names, put together and run round by round."""
