"""The menu: which rules are on it, and their names."""

from __future__ import annotations

import pytest

from postshift.exceptions import SettingError
from postshift.metrics import GMean
from postshift.rules import Influence, Paper, Problem, Stacked, menu, rule_named
from tests.rules.helpers import labelled


def test_names():
    problem = labelled(GMean())
    assert rule_named("stack + influence [user]", problem) == Stacked(Influence("user"))
    assert rule_named("PI-EW [constant]", problem) == Paper(max_iter=1)
    with pytest.raises(SettingError, match="there is no method 'stuck'"):
        rule_named("stuck", problem)


def test_the_menu_with_and_without_labels():
    problem = labelled(GMean())
    assert [rule.name for rule in menu(problem)] == [
        "base",
        "inverse prior",
        "smoothed plug-in",
        "stack",
        "stack + smoothed plug-in",
        "stack + expected utility",
        "influence [constant]",
        "stack + influence [constant]",
        "influence [user]",
        "stack + influence [user]",
    ]
    for kind, names in (("soft", 4), ("hard", 3)):
        queried = Problem.queried(problem.train, problem.val, kind=kind)
        assert len(menu(queried)) == names


def test_a_rule_has_the_name_that_it_is_found_by():
    problem = labelled(GMean())
    with pytest.raises(SettingError, match="there is no method 'zzz'") as error:
        rule_named("zzz", problem)
    listed = str(error.value).partition("; choose from ")[2].split(", ")
    names = {name.strip("'") for name in listed} - {"auto", "best"}
    found = {name: rule_named(name, problem).name for name in names}
    short = {name: f"{name} [user]" for name in ("influence", "stack + influence", "rate program")}
    short["paper"] = "FW-EG [user]"
    assert found == {name: short.get(name, name) for name in names}
    assert len(names) == 11 + 2 * 5 + 4
