"""The radio half of a round: gradients of M devices in, the server's estimate of their weighted mean out."""

from airfeel.aggregators.base import Aggregate, Aggregator
from airfeel.aggregators.common_k import CommonK
from airfeel.aggregators.error_free import ErrorFree
from airfeel.aggregators.over_the_air import OverTheAir

__all__ = ["Aggregate", "Aggregator", "CommonK", "ErrorFree", "OverTheAir"]
