"""What the server runs: recover the aggregate x from the reception y = A x + n, round after round."""
