"""Learning tasks, local training, data sets and how data is spread over devices."""
