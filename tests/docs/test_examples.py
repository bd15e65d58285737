"""Every example runs and reaches what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def output_of(name):
    command = [sys.executable, str(ROOT / "examples" / name)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_lightgbm_with_costs():
    shown = output_of("lightgbm_costs.py")
    plain, shifted = (float(value) for value in re.findall(r"cost of a case, .*?(\d\.\d+)", shown))
    assert shifted < plain / 2
    assert "150 validation rows" in shown


def numbers(name, pattern=r"\d+\.\d+"):
    return [float(value) for value in re.findall(pattern, output_of(name))]


@pytest.mark.parametrize("name", ["macro_f1_ten_classes.py", "prior_shift.py"])
def test_the_shifted_model_is_better(name):
    plain, shifted = numbers(name)[:2]
    assert shifted > plain + 0.05


def test_a_cost_matrix():
    plain, shifted = numbers("cost_matrix.py")
    assert shifted < plain


def test_the_quadratic_kappa_of_the_gallery():
    shown = output_of("quadratic_kappa.py")
    found = [float(value) for value in re.findall(r"(\d\.\d+)  \(", shown)]
    for alone, *others in (found[:4], found[4:]):
        assert min(others) > alone + 0.03
    page = (ROOT / "docs" / "gallery.md").read_text()
    table = re.findall(r"^\| (?:model alone|cut points.*?|postshift) \| (.*?) \| (.*?) \|$", page, flags=re.MULTILINE)
    assert [float(value) for column in zip(*table, strict=True) for value in column] == pytest.approx(found, abs=0.01)


def test_the_worst_group():
    found = numbers("worst_group.py")
    assert min(found[2:]) > min(found[:2]) + 0.2


def test_noisy_labels():
    found = numbers("noisy_labels.py")
    assert all(new > old + 0.2 for old, new in zip(found[:3], found[3:6], strict=True))


def test_an_oracle_is_asked_no_more_than_the_budget():
    shown = output_of("oracle_budget.py")
    assert int(re.search(r"(\d+) queries of 150", shown).group(1)) <= 150
    plain, shifted = (float(value) for value in re.findall(r"the metric of .*? (\d\.\d+)", shown))
    assert shifted > plain + 0.05


def test_a_person_is_asked_nothing_twice():
    shown = output_of("ask_a_person.py")
    bound = int(re.search(r"of at most (\d+) queries", shown)[1])
    answered, different = map(int, re.search(r"(\d+) queries answered, (\d+) of them", shown).groups())
    assert 4 < answered == different <= bound
    plain, shifted = (float(value) for value in re.findall(r"0\.\d\d", shown))
    assert shifted > plain


def test_a_program_as_metric():
    shown = output_of("metric_program.py")
    assert "report.html" in shown
    assert int(re.search(r"ran (\d+) times", shown).group(1)) <= 40
    plain, shifted = (float(value) for value in re.findall(r"0\.\d+", shown))
    assert shifted >= plain


def test_saved_models_give_the_same_labels():
    assert output_of("save_and_onnx.py").count("100.0% of the labels are the same") == 2


def test_a_profit_that_depends_on_the_row():
    shown = output_of("profit_of_rows.py")
    plain, shifted = (float(value) for value in re.findall(r"profit of an order, .*?(\d\.\d+)", shown))
    assert shifted > plain


def test_the_demo_prints_what_was_elicited():
    shown = output_of("digits_demo.py")
    paper, menu = shown.split("the menu ")
    scores = {line[:36].strip(): float(line[36:46]) for line in paper.splitlines() if line[36:46].strip()[:2] == "0."}
    assert "stack + influence [constant]" in menu
    assert "Why: " in menu
    base = scores.pop("base: argmax eta")
    assert len(scores) == 4
    assert min(scores.values()) > base + 0.1
    for sentence in (
        "9 gets more weight against 1: many 9s have the training label 1",
        "2 gets more weight against 0: many 2s have the training label 0",
        "4 gets more weight against 7: many 4s have the training label 7",
        "training label 3 is mostly a 5",
        "training label 5 is mostly a 3",
    ):
        assert sentence in shown


def test_the_gallery_shows_every_example():
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    for example in (ROOT / "examples").glob("[!_]*.py"):
        assert f"../examples/{example.name}" in gallery, example.name


def test_examples_are_short():
    for example in (ROOT / "examples").glob("[!_]*.py"):
        if example.name not in ("digits_demo.py", "lightgbm_costs.py"):  # older than the limit
            assert len(example.read_text().splitlines()) <= 60, example.name


def test_every_example_has_a_test():
    tested = Path(__file__).read_text()
    for example in (ROOT / "examples").glob("[!_]*.py"):
        assert example.name in tested, example.name
