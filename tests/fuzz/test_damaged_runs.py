"""Run folders that were damaged: a typed error or the right answer, never a raw exception."""

import json

import numpy as np

from tests.fuzz.cases import cases
from tests.fuzz.damage import damaged_bytes, damaged_json

FILES = {
    "bases": ("run.json", "rule.skops", "facts.json", "metrics.json", "validation.csv", "history.csv"),
    "groups": ("run.json", "rule.skops", "facts.json", "metrics.json", "report.html"),
    "model": ("run.json", "rule.skops", "model.skops", "facts.json"),
    "costs": ("run.json", "metric.csv", "rule.skops", "facts.json"),
    "file": ("run.json", "metric.py", "rule.skops"),
    "program": ("run.json", "answers.jsonl", "metrics.json", "facts.json"),
}
KINDS = tuple(FILES)


def check(used, *, force):
    """Use a damaged run: what is not refused is right."""
    labels, scores, page = used.predict(), used.evaluate(), used.report()
    assert labels in (None, used.made.labels)
    assert scores is None or scores == (used.made.scores if is_same(scores, used.made) else used.rescored(scores))
    assert page is None or page.lower().startswith("<!doctype html>"), page[:100]
    done = used.resume()
    assert done.code or used.predict() in (None, used.made.labels)
    if not force or done.code == 0:
        return
    again = used.force()
    assert again.code == 0 or "nothing in it was changed" in again.error, (done.error, again.error)


def is_same(scores, made):
    """Whether scores are of the metric of the fit; damage may have made another one of its name."""
    return scores["metric"] == made.scores["metric"]


def draw(case):
    """Return the generator, the kind of run and the file of a case."""
    rng = np.random.default_rng(case)
    kind = KINDS[case % len(KINDS)]
    names = FILES[kind]
    return rng, kind, names[case // len(KINDS) % len(names)]


@cases(300, 12)
def test_bytes(case, used):
    rng, kind, name = draw(case)
    run = used(kind)
    path = run.run / name
    _, content = damaged_bytes(path.read_bytes(), rng)
    path.write_bytes(content)
    unfinished(run, name)
    check(run, force=case % 4 == 0)


@cases(200, 12)
def test_fields(case, used):
    rng, kind, _ = draw(case)
    name = ("run.json", "run.json", "facts.json", "metrics.json")[case // len(KINDS) % 4]
    run = used(kind)
    path = run.run / name
    _, text = damaged_json(json.loads(path.read_text()), rng)
    path.write_text(text)
    check(run, force=case % 4 == 0)


def unfinished(run, name):
    """Let the answers be read again."""
    if name != "answers.jsonl":
        return
    path = run.run / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "failed"}))
