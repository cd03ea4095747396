"""What is not training: the receiver alone, Theorem 3 on a real run, a run's gradients, link planning."""
