"""``postshift oracle demo``: the whole story, over a socket."""

from __future__ import annotations

import json
import re

import pytest

from postshift.cli.oracle_demo import ATTACKED
from tests.cli.helpers import inside

pytestmark = pytest.mark.slow


def test_the_learner_gains_and_the_attack_needs_exact_answers():
    shown = inside("oracle", "demo", "--json")
    assert shown.code == 0, shown.err
    found = json.loads(shown.out)
    assert found["private"]["queries"] == 1
    assert found["private"]["test"] > found["model"] + 0.02
    assert found["trusted"]["test"] > found["model"] + 0.02
    assert found["attack_on_trusted"]["right"] > 0.9
    margin = 3 * 0.5 / ATTACKED**0.5
    assert found["attack_on_private"]["right"] < found["bound"] + margin


def test_the_story_in_words():
    shown = inside("oracle", "demo")
    assert shown.code == 0, shown.err
    for text in ("owner: 900 rows at http://127.0.0.1", "learner: ", "attack: ", "warning: exact answers", "the bound"):
        assert text in shown.out
    assert not re.search(r"ps[lo]_[0-9a-f]{8}_", shown.out)
