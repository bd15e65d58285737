from __future__ import annotations

from dataclasses import fields, replace

import pytest

from postshift.oracle.ledger_log import ANSWER, CREATED, Entry, after, genesis

CREATION = Entry(event=CREATED, granted=10, text="created")
PAID = Entry(event=ANSWER, token="ann", key="ab", kind="value", cost=3, text="labels", answer="cd")  # noqa: S106


def test_an_account_is_the_sum_of_its_lines():
    found = after(after(genesis("data"), CREATION, time=5), PAID, time=7)
    assert (found.total, found.spent, found.left, found.n_answers, found.number, found.time) == (10, 3, 7, 1, 2, 7)


@pytest.mark.parametrize("name", [each.name for each in fields(Entry)])
def test_the_digest_covers_every_field(name):
    start, value = after(genesis("data"), CREATION, time=5), getattr(PAID, name)
    changed = replace(PAID, **{name: value + 1 if isinstance(value, int) else f"{value}."})
    assert after(start, PAID, time=7).digest != after(start, changed, time=7).digest


def test_the_digest_covers_the_time_the_line_before_and_the_data():
    start = after(genesis("data"), CREATION, time=5)
    digests = {
        after(start, PAID, time=7).digest,
        after(start, PAID, time=8).digest,
        after(after(genesis("other"), CREATION, time=5), PAID, time=7).digest,
        after(after(genesis("data"), CREATION, time=6), PAID, time=7).digest,
    }
    assert len(digests) == 4


def test_fields_do_not_run_into_each_other():
    start = genesis("data")
    found = [Entry(event="a", token="bc", text="d"), Entry(event="ab", token="c", text="d")]  # noqa: S106
    assert len({after(start, each, time=1).digest for each in found}) == 2


def test_nothing_is_left_below_zero():
    over = after(after(genesis("data"), CREATION, time=1), replace(PAID, cost=99), time=2)
    assert (over.spent, over.left) == (99, 0)
