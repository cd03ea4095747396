"""From results to pages: figures, tables, and the claims of the paper with verdicts."""
