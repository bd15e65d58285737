"""The rules of the menu, and the choice among them."""

from __future__ import annotations

from postshift.rules.by_counts import ByCounts
from postshift.rules.choice import Choice, Chosen
from postshift.rules.fitted import FittedRule, Rule
from postshift.rules.loops import Influence, Paper
from postshift.rules.menu import menu, rule_named
from postshift.rules.problem import Problem
from postshift.rules.search import PluginSearch
from postshift.rules.simple import Base, InversePrior, Stacked
from postshift.rules.soft_weights import ExpectedUtility, SmoothedPlugin

__all__ = [
    "Base",
    "ByCounts",
    "Choice",
    "Chosen",
    "ExpectedUtility",
    "FittedRule",
    "Influence",
    "InversePrior",
    "Paper",
    "PluginSearch",
    "Problem",
    "Rule",
    "SmoothedPlugin",
    "Stacked",
    "menu",
    "rule_named",
]
