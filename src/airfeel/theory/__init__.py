"""Section V as working code: state evolution, its theorems, a link planner, and the bound of Theorem 3."""

from airfeel.theory.amp import amp_evolution
from airfeel.theory.evolution import state_evolution
from airfeel.theory.exact import exact_evolution
from airfeel.theory.scalar import Prediction, first_round_mmse

__all__ = ["Prediction", "amp_evolution", "exact_evolution", "first_round_mmse", "state_evolution"]
