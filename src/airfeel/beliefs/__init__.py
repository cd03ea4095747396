"""Probability algebra on arrays; knows neither radio nor learning."""
