"""The rules of the menu, one file each, and the choice among them."""

from __future__ import annotations

from postshift.rules.choice import Choice, Chosen
from postshift.rules.fitted import FittedRule, Rule
from postshift.rules.influence import Influence
from postshift.rules.menu import menu, rule_named
from postshift.rules.paper import Paper
from postshift.rules.problem import Problem
from postshift.rules.search import PluginSearch
from postshift.rules.simple import Base, InversePrior
from postshift.rules.soft_weights import ExpectedUtility, SmoothedPlugin
from postshift.rules.stacked import Stacked

__all__ = [
    "Base",
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
