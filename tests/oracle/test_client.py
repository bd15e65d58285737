"""The learner's side, over real sockets: what it asks, what it gets, and what it does if there is no answer."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import pickle
import shutil
import socket
import subprocess
import threading
import time
import traceback
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from postshift import PostShiftClassifier, PostShifter
from postshift.cli.oracle_work import _listening
from postshift.core.psi import value_of
from postshift.core.queries import Query
from postshift.core.sums import categories_of
from postshift.exceptions import (
    BudgetEndedError,
    MetricError,
    PostshiftWarning,
    RemoteError,
    SettingError,
    ShapeError,
    SmallValidationWarning,
)
from postshift.metrics import ConfusionOracle, GroupGMean, TableOracle, from_labels, from_oracle, from_predictions
from postshift.oracle import RemoteMetric
from postshift.oracle.app import create_app
from postshift.oracle.client import _is_local
from postshift.oracle.wire import encoded
from tests.cli.helpers import inside
from tests.oracle.loopback import free_port, running, service_of, serving
from tests.oracle.owned import distributions, holdings
from tests.oracle.proxies import dropping

pytestmark = pytest.mark.filterwarnings("ignore::postshift.exceptions.SmallValidationWarning")
N_ROWS = 90
HELD = {
    "classes": {"metric": "g_mean", "n_classes": 3, "groups": None, "group_names": ()},
    "groups": {"metric": "group_g_mean"},
}


@contextlib.contextmanager
def remote(served, **how):
    """A metric whose connection is closed at the end."""
    with contextlib.closing(RemoteMetric(served.url, token=served.token, **how)) as metric:
        yield metric


@pytest.fixture(params=HELD)
def held(request):
    return holdings(N_ROWS, **HELD[request.param])


@pytest.fixture
def served(held, sqlite_url, tmp_path):
    with serving(held, sqlite_url, tmp_path, kinds=("table", "confusion", "value")) as found:
        yield found


@pytest.fixture
def few(sqlite_url, tmp_path):
    """A service of the metric of classes, with terms that a test chooses."""
    return lambda **terms: serving(holdings(N_ROWS, **HELD["classes"]), sqlite_url, tmp_path, **terms)


def probabilities(held, *, seed=1):
    """A model's probabilities: better than chance, and too low for the first class."""
    table = distributions(held.n_rows, held.n_classes, seed=seed)
    table[np.arange(held.n_rows), held.labels] += 0.5
    table[:, 0] *= 0.5
    return table / table.sum(axis=1, keepdims=True)


def training(held, *, n_rows=150):
    """Probabilities of training rows, and their labels."""
    rng = np.random.default_rng(7)
    eta = distributions(n_rows, held.n_classes, seed=8)
    return {"eta_train": eta, "y_train": np.asarray(held.classes)[[rng.choice(held.n_classes, p=row) for row in eta]]}


def fitted(metric, held, *, order=None, n_bases=3, **how):
    """A PostShifter over the validation rows of the service, by the paper's method unless another is named."""
    order = np.arange(held.n_classes) if order is None else order
    given, classes = training(held), [held.classes[k] for k in order]
    shifter = PostShifter(metric, **{"method": "paper", "classes": classes, **how})
    rows = {"eta_train": given["eta_train"][:, order], "y_train": given["y_train"]}
    if n_bases > 1:
        rows["phi_val"], rows["phi_train"] = (np.eye(n_bases)[np.arange(n) % n_bases] for n in (held.n_rows, 150))
    return shifter.fit(probabilities(held)[:, order], **rows)


def local_matrices(held, order, *, kind=ConfusionOracle):
    """The metric of an oracle with the same labels, as matrices, with the classes in another order."""
    labels = np.argsort(order)[held.labels]
    psi = held.psi
    groups = held.groups if hasattr(psi, "n_categories") else None
    return from_oracle(kind(labels, n_classes=held.n_classes, groups=groups, metric=psi), metric=psi, name=psi.name)


def local_values(held, order):
    """The same as a function of class distributions."""
    groups = held.groups if hasattr(held.psi, "n_categories") else None
    size = {"n_classes": held.n_classes, "n_categories": held.n_categories}
    categories = categories_of(held.labels, groups, **size)

    def score(shown):
        columns = [np.bincount(categories, each, minlength=held.n_categories) for each in shown[:, np.argsort(order)].T]
        return float(value_of(held.psi, np.stack(columns, axis=1) / held.n_rows))

    return from_predictions(score, soft=True, name=held.psi.name)


LOCAL = {
    "table": partial(local_matrices, kind=TableOracle),
    "confusion": local_matrices,
    "value": local_values,
}


def result_of(shifter):
    """Everything that a fit found, to the last bit."""
    rules = [(rule.name, [member.alpha.tolist() for member in rule.mixture.members]) for rule in shifter.rule_.rules]
    scores = float(shifter.score_), float(shifter.base_score_), shifter.n_queries_, tuple(shifter.rule_.weights)
    return rules, scores, shifter.held_out_.labels.tolist(), shifter.history_


class TestSameAsTheLocalMetric:
    """In trusted mode, a fit ends in the same rule as with the labels at home, bit for bit."""

    @pytest.mark.parametrize("kind", LOCAL)
    @pytest.mark.parametrize("method", ["auto", "paper"])
    def test_post_shifter(self, kind, method, held, served):
        with remote(served, kind=kind) as metric:
            found = fitted(metric, held, method=method, budget=80)
        wanted = fitted(LOCAL[kind](held, np.arange(held.n_classes)), held, method=method, budget=80)
        assert result_of(found) == result_of(wanted)
        assert served.spent == found.n_queries_
        assert found.n_queries_ == 1 if kind == "table" else found.n_queries_ > 2

    @pytest.mark.parametrize("kind", LOCAL)
    def test_classes_in_another_order(self, kind, held, served):
        order = np.roll(np.arange(held.n_classes), 1)
        with remote(served, kind=kind) as metric:
            found = fitted(metric, held, order=order)
        wanted = fitted(LOCAL[kind](held, order), held, order=order)
        assert result_of(found) == result_of(wanted)

    @pytest.mark.parametrize("kind", LOCAL)
    def test_classifier(self, kind, held, served):
        rng = np.random.default_rng(3)
        X, y = rng.normal(size=(200, 4)), rng.integers(held.n_classes, size=200)
        X[np.arange(200), y] += 1
        X_val = rng.normal(size=(held.n_rows, 4))
        X_val[np.arange(held.n_rows), held.labels] += 1
        how = {"method": "paper", "basis": "constant"}
        with remote(served, kind=kind) as metric:
            found = PostShiftClassifier(LogisticRegression(), metric=metric, **how).fit(X, y, X_val)
        local = LOCAL[kind](held, np.arange(held.n_classes))
        wanted = PostShiftClassifier(LogisticRegression(), metric=local, **how).fit(X, y, X_val)
        assert result_of(found) == result_of(wanted)

    @pytest.mark.parametrize("kind", LOCAL)
    def test_command_line(self, kind, held, sqlite_url, tmp_path, monkeypatch):
        eta = probabilities(held)
        names = [f"p_{k}" for k in held.classes]
        given, table = training(held), {"header": ",".join(names), "delimiter": ",", "comments": "", "fmt": "%.17g"}
        np.savetxt(tmp_path / "val.csv", eta, **table)
        train = pd.DataFrame(given["eta_train"], columns=names).assign(y=given["y_train"])
        train.to_csv(tmp_path / "train.csv", index=False)
        with serving(held, sqlite_url, tmp_path, kinds=(kind,)) as served:
            monkeypatch.setenv("POSTSHIFT_TOKEN", served.token)
            rows = ["--val", "val.csv", "--train", "train.csv", "--label", "y"]
            options = ["--method", "paper", "--basis", "constant", "--out", "run", "--quiet"]
            done = inside("fit", *rows, "--metric", served.url, *options, cwd=tmp_path)
        assert done.code == 0, done.err
        wanted = fitted(LOCAL[kind](held, np.arange(held.n_classes)), held, n_bases=1)
        found = json.loads((tmp_path / "run" / "metrics.json").read_text())
        assert (found["after"], found["before"]) == (wanted.score_, wanted.base_score_)
        assert found["queries"] == wanted.n_queries_ == served.spent
        assert found["metric"] == f"{held.metric} at {served.url}"
        assert (tmp_path / "run" / "history.csv").read_text() == wanted.history_.to_frame().to_csv(index=False)
        shown = pd.read_csv(tmp_path / "run" / "validation.csv", dtype=str)
        assert shown["after"].tolist() == list(map(str, wanted.predict(eta)))
        assert served.token not in "".join(
            each.read_text(errors="replace") for each in (tmp_path / "run").iterdir() if each.is_file()
        )

    def test_what_a_fit_in_the_terminal_may_spend(self, few, tmp_path, monkeypatch):
        """In private mode a part of the budget; the error of too small a budget names the option."""
        eta = distributions(N_ROWS, 3)
        pd.DataFrame(eta, columns=["p_0", "p_1", "p_2"]).to_csv(tmp_path / "val.csv", index=False)
        with few(mode="private", kinds=("table",), budget=500_000) as served:
            monkeypatch.setenv("POSTSHIFT_TOKEN", served.token)
            words = ("fit", "--val", "val.csv", "--metric", served.url, "--quiet", "--out")
            assert inside(*words, "one", "--rho", "0.2", cwd=tmp_path).code == 0
            assert served.spent == 200_000
            refused = inside(*words, "two", cwd=tmp_path)
            assert "rho=0.3 (in the terminal --rho 0.3)" in refused.err
            assert served.spent == 200_000
        refused = inside("fit", "--val", "val.csv", "--metric", "g_mean", "--rho", "1", "--out", "three", cwd=tmp_path)
        assert "--rho is for a --metric that is the URL of a service" in refused.err

    def test_a_second_fit_is_free(self, held, served):
        with remote(served) as metric:
            first = fitted(metric, held)
            spent = served.spent
        with remote(served) as metric:
            second = fitted(metric, held)
        assert result_of(first) == result_of(second)
        assert served.spent == spent


class TestRows:
    """The rows that the owner releases, and rows that do not fit them."""

    @pytest.fixture
    def released(self, sqlite_url, tmp_path):
        ids = [f"{place:04d}" for place in range(N_ROWS)]
        table = pd.DataFrame({"id": ids, "age": np.arange(N_ROWS) / 7, "city": ['a, "b"\nc'] * N_ROWS})
        held = holdings(N_ROWS, **HELD["classes"], ids=ids, released=table.to_csv(index=False))
        with serving(held, sqlite_url, tmp_path) as served:
            yield served, table

    def test_rows_are_texts(self, released):
        served, table = released
        with remote(served) as metric:
            assert metric.rows() == {name: [str(each) for each in table[name]] for name in table}

    def test_frame(self, released):
        served, table = released
        with remote(served) as metric:
            pd.testing.assert_frame_equal(metric.frame(), table)

    def test_another_number_of_rows(self, held, served):
        with remote(served) as metric, pytest.raises(ShapeError, match=r"80 validation rows here and 90 at http.*rows"):
            PostShifter(metric, classes=held.classes).fit(probabilities(held)[:80])
        assert served.spent == 0

    def test_other_classes(self, held, served):
        with remote(served) as metric, pytest.raises(SettingError, match=r"those of the service.*give classes="):
            PostShifter(metric, classes=[f"c{k}" for k in held.classes]).fit(probabilities(held))
        with remote(served) as metric, pytest.raises(SettingError, match="those of the service"):
            PostShifter(metric).fit(distributions(held.n_rows, held.n_classes + 1))

    def test_rows_in_another_order_need_their_identifiers(self, held, served):
        labels = np.arange(held.n_rows) % held.n_classes
        order = np.random.default_rng(0).permutation(held.n_rows)
        with remote(served) as metric:
            body = {"kind": "value", "cost": 1, "predictions": encoded(labels, "u4")}
            here = metric.asked(body)
            named = {"predictions": encoded(labels[order], "u4"), "ids": [held.ids[row] for row in order]}
            assert metric.asked({**body, **named}) == here
            assert served.spent == 1
            assert metric.asked({**body, "predictions": encoded(labels[order], "u4")}) != here

    def test_queries_about_some_of_the_rows_are_refused(self, held, served):
        with remote(served) as metric:
            oracle, rows = metric.oracle(kind="hard"), np.arange(10)
            query = Query(key="a", kind="hard", text="", n_rows=held.n_rows, rows=rows, _predict=lambda: rows * 0)
            with pytest.raises(MetricError, match="scores all validation rows at once"):
                oracle.answer(query)


class TestToken:
    """The token is in no text and in no file."""

    def test_it_is_in_the_environment(self, served, monkeypatch):
        monkeypatch.setenv("POSTSHIFT_TOKEN", served.token)
        with contextlib.closing(RemoteMetric(served.url)) as metric:
            assert metric.about.n_rows == N_ROWS

    def test_it_is_needed(self, monkeypatch):
        monkeypatch.delenv("POSTSHIFT_TOKEN", raising=False)
        with pytest.raises(SettingError, match=r"token=.*POSTSHIFT_TOKEN"):
            RemoteMetric("http://127.0.0.1:1")

    @pytest.mark.parametrize("around", ["{}\n", " {}\r\n"])
    def test_it_comes_from_a_file(self, served, around):
        """A file of text ends with a new line."""
        with contextlib.closing(RemoteMetric(served.url, token=around.format(served.token))) as metric:
            assert metric.about.n_rows == N_ROWS

    @pytest.mark.parametrize("token", ["ann psl_secret", "psl_secr\u00e9t", "psl_\nsecret"])
    def test_what_no_token_is_made_of(self, token):
        with pytest.raises(SettingError, match="that no token has: copy it again") as refused:
            RemoteMetric("http://127.0.0.1:1", token=token)
        assert "secr" not in str(refused.value)

    def test_a_proxy_of_the_environment_does_not_get_it(self, served, monkeypatch):
        """A service on this machine is asked directly."""
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with remote(served, patience=0) as metric:
            assert metric.about.n_rows == N_ROWS

    def test_it_is_not_shown(self, held, served):
        with remote(served) as metric:
            shifter = fitted(metric, held)
            shown = [repr(metric), str(metric), repr(shifter), shifter._repr_html_inner(), repr(metric.about)]
            shown += [repr(metric.oracle()), repr(shifter.get_params())]
        assert not [text for text in shown if served.token in text]

    def test_it_is_not_saved(self, held, served):
        with remote(served) as metric:
            shifter = fitted(metric, held)
            for each in (metric, metric.oracle(), shifter):
                with pytest.raises(TypeError, match="has a token"):
                    pickle.dump(each, io.BytesIO())

    def test_it_is_in_no_error_and_in_no_log(self, served, caplog):
        caplog.set_level(logging.DEBUG)
        wrong = served.token[:-4] + "0000"
        gone = RemoteMetric(f"http://127.0.0.1:{free_port()}", token=served.token, patience=0)
        with contextlib.closing(gone), contextlib.closing(RemoteMetric(served.url, token=wrong)) as other:
            for metric in (gone, other):
                with pytest.raises(RemoteError) as caught:
                    _ = metric.about
                assert metric._token not in "".join(traceback.format_exception(caught.value))
                assert metric._token not in caplog.text


@pytest.mark.filterwarnings("ignore:.*trying again:postshift.exceptions.PostshiftWarning")  # on a slow machine
class TestRepeatedRequests:
    """Requests are repeated until there is a response, and nothing is paid twice."""

    def test_a_server_that_starts_late(self, held, sqlite_url, tmp_path):
        service, port = service_of(held, sqlite_url, tmp_path), free_port()
        _, token = service.ledger.create_token("a learner", scope="learner")
        stop = threading.Event()

        def late():
            time.sleep(5)
            with running(create_app(service), port=port):
                stop.wait()

        thread = threading.Thread(target=late)
        metric = RemoteMetric(f"http://127.0.0.1:{port}", token=token, patience=60)
        with contextlib.closing(service.ledger), contextlib.closing(metric):
            thread.start()
            try:
                with pytest.warns(PostshiftWarning, match=r"does not answer \(ConnectError.*trying again for 5\d s"):
                    assert metric.about.n_rows == N_ROWS
            finally:
                stop.set()
                thread.join()

    def test_a_server_that_is_gone_for_a_while(self, held, sqlite_url, tmp_path):
        service, port = service_of(held, sqlite_url, tmp_path), free_port()
        _, token = service.ledger.create_token("a learner", scope="learner")
        metric = RemoteMetric(f"http://127.0.0.1:{port}", token=token, patience=60)
        body = {"kind": "value", "cost": 1, "predictions": encoded(np.zeros(N_ROWS), "u4")}
        with contextlib.closing(service.ledger), contextlib.closing(metric):
            with running(create_app(service), port=port):
                first = metric.asked(body)
            with running(create_app(service), port=port):  # the connection of the first is closed
                assert metric.asked(body) == first
            assert service.ledger.budget().spent == 1

    @pytest.mark.parametrize(
        ("url", "text"),
        [
            ("https://127.0.0.1:{}", "should the URL begin with http://"),
            ("http://no.such.host.invalid", "check the URL"),
        ],
    )
    @pytest.mark.filterwarnings("ignore:.*is not encrypted:postshift.exceptions.PostshiftWarning")
    def test_a_wrong_url_is_not_tried_for_minutes(self, served, url, text):
        wrong = RemoteMetric(url.format(served.url.rpartition(":")[2]), token=served.token, patience=10**6)
        with contextlib.closing(wrong), pytest.raises(RemoteError, match=text):
            _ = wrong.about

    @pytest.mark.parametrize("kind", ["confusion", "value"])
    def test_connections_that_break_before_the_answer(self, kind, held, served):
        with remote(served, kind=kind) as metric:
            wanted = fitted(metric, held)
        spent = served.spent
        with dropping(served.url, every=5 if kind == "value" else 2) as proxy:
            metric = RemoteMetric(proxy.url, token=served.token, kind=kind, patience=60)
            with contextlib.closing(metric):
                found = fitted(metric, held)
        assert result_of(found) == result_of(wanted)
        assert proxy.n_dropped > 1
        assert served.spent == spent == found.n_queries_

    def test_an_answer_that_was_lost_is_free_the_second_time(self, held, sqlite_url, tmp_path):
        terms = {"mode": "private", "kinds": ("value",), "budget": 1000}
        with serving(held, sqlite_url, tmp_path, **terms) as served, dropping(served.url, every=2) as proxy:
            metric = RemoteMetric(proxy.url, token=served.token, patience=60)
            with contextlib.closing(metric):
                labels = encoded(np.arange(N_ROWS) % held.n_classes, "u4")
                found = [metric.asked({"kind": "value", "cost": 100, "predictions": labels}) for _ in range(4)]
            assert len(set(map(float, found))) == 1
            assert proxy.n_dropped > 1
            assert served.spent == 100

    def test_patience_ends(self):
        metric = RemoteMetric(f"http://127.0.0.1:{free_port()}", token="psl_x", patience=0.3)  # noqa: S106
        with pytest.raises(RemoteError, match=r"could not be reached for 0\.3 s \(ConnectError.*later"):
            metric.budget()

    def test_too_fast_is_tried_again(self, few):
        with few(per_minute=2) as served, remote(served, patience=0.3) as metric:
            for place in range(2):
                metric.asked({"kind": "value", "cost": 1, "predictions": encoded(np.full(N_ROWS, place), "u4")})
            with pytest.raises(RemoteError, match="2 answers in a minute"):
                metric.asked({"kind": "value", "cost": 1, "predictions": encoded(np.full(N_ROWS, 2), "u4")})

    def test_a_closed_metric_connects_again(self, served):
        with remote(served) as metric:
            for _ in range(2):
                metric.close()
                metric.close()
                assert metric.budget()["left"] == 1000


class TestRefusals:
    """What is refused is raised at once, with the service's reason."""

    def test_unknown_and_revoked_tokens(self, served):
        with contextlib.closing(RemoteMetric(served.url, token="psl_unknown")) as metric:  # noqa: S106
            with pytest.raises(RemoteError, match=r"refused \(unknown_token\)") as caught:
                metric.budget()
            assert caught.value.code == "unknown_token"
        for use in served.service.ledger.tokens():
            served.service.ledger.revoke_token(use.token.id)
        with remote(served) as metric, pytest.raises(RemoteError, match=r"refused \(revoked_token\).*for a new one"):
            metric.budget()

    def test_a_kind_that_is_not_allowed(self, few):
        with few(kinds=("confusion",)) as served:
            with remote(served, kind="value") as metric, pytest.raises(SettingError, match="confusion, not 'value'"):
                PostShifter(metric, classes=[0, 1, 2]).fit(distributions(N_ROWS, 3))
            with remote(served) as metric, pytest.raises(RemoteError) as caught:
                metric.asked({"kind": "value", "cost": 1, "predictions": encoded(np.zeros(N_ROWS), "u4")})
            assert caught.value.code == "kind_not_allowed"

    @pytest.mark.parametrize("limits", [{"budget": 12}, {"budget": 1000, "most": 12}], ids=["data", "token"])
    def test_the_best_rule_so_far_is_the_result_if_the_budget_ends(self, limits, few):
        held = holdings(N_ROWS, **HELD["classes"])
        with few(**limits) as served, remote(served, kind="value") as metric:
            with pytest.warns(PostshiftWarning, match="the budget of the metric ended after 12 queries"):
                found = fitted(metric, held)
            assert served.spent == 12
        assert found.score_ >= found.base_score_
        assert "so far" in found.diagnostics_.choice.reason

    def test_no_rule_at_all_is_an_error(self, few):
        with few(most=1) as served, remote(served) as metric:
            metric.asked({"kind": "value", "cost": 1, "predictions": encoded(np.zeros(N_ROWS), "u4")})
            with pytest.raises(BudgetEndedError, match=r"has 0 of its 1 left.*another token"):
                PostShifter(metric, classes=[0, 1, 2]).fit(distributions(N_ROWS, 3))

    def test_what_is_left_of_a_private_budget_can_be_spent(self, few):
        with few(mode="private", kinds=("table",), budget=500_000) as served:
            eta = distributions(N_ROWS, 3)
            with remote(served, rho=0.2) as metric:
                PostShifter(metric, classes=[0, 1, 2]).fit(eta)
            text = r"costs 500000 and 300000 of 500000 are left .*at most what is left, rho=0.3 \(in the terminal --rho"
            with remote(served) as metric, pytest.raises(BudgetEndedError, match=text):
                PostShifter(metric, classes=[0, 1, 2]).fit(eta)
            with remote(served, rho=0.3) as metric:
                PostShifter(metric, classes=[0, 1, 2]).fit(eta)
            assert served.spent == 500_000

    def test_a_metric_of_other_categories_is_refused_before_it_is_charged(self, sqlite_url, tmp_path):
        held = holdings(N_ROWS, **HELD["groups"])
        with serving(held, sqlite_url, tmp_path, mode="private", kinds=("table",)) as served:
            with remote(served, metric="g_mean") as metric, pytest.raises(SettingError, match="'g_mean' reads 2"):
                PostShifter(metric).fit(probabilities(held))
            assert served.spent == 0

    @pytest.mark.parametrize("arguments", [{"rho": "0.1"}, {"rho": float("nan")}, {"scale": 0}, {"scale": "wide"}])
    def test_numbers_that_are_none(self, arguments):
        with pytest.raises(SettingError, match="must be a number from"):
            RemoteMetric("http://127.0.0.1:1", token="psl_x", **arguments)  # noqa: S106

    def test_something_else_at_the_url(self):
        async def other(scope, receive, send):  # noqa: ARG001
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b'{"hello": "there"}' if scope["path"] else b""})

        with running(other) as url, contextlib.closing(RemoteMetric(url, token="psl_x")) as metric:  # noqa: S106
            for ask in (lambda: metric.about, metric.budget, lambda: metric.asked({})):
                with pytest.raises(RemoteError, match="is it a postshift oracle"):
                    ask()

    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            ("hello", "is no array"),
            ({"shape": [1], "data": "AA=="}, "is no array"),
            ({"dtype": "u1", "shape": None, "data": "AA=="}, "is no array"),
            (encoded([1.0, 2.0], "f8"), r"must have shape \(\). Got \(2,\)"),
        ],
    )
    def test_an_answer_that_cannot_be(self, answer, text):
        async def other(scope, receive, send):  # noqa: ARG001
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": json.dumps({"answer": answer}).encode()})

        with running(other) as url, pytest.raises(RemoteError, match=text):
            RemoteMetric(url, token="psl_x").asked({}, shape=())  # noqa: S106

    @pytest.mark.parametrize("change", [{"classes": None}, {"allowance": 0}, {"categories": 7}, {"rows": "many"}])
    def test_a_description_that_cannot_be(self, served, change):
        with remote(served) as metric:
            good = metric._json("GET", "/v1/about", needed="budget")
            metric._json = lambda *_, **__: {**good, **change}
            with pytest.raises(RemoteError, match="does not describe itself as a postshift oracle does"):
                _ = metric.about

    def test_a_page_at_the_url(self):
        async def page(scope, receive, send):  # noqa: ARG001
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"<html>"})

        with running(page) as url, pytest.raises(RemoteError, match="did not answer with JSON"):
            RemoteMetric(url, token="psl_x").budget()  # noqa: S106

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"url": "labels.example.org"}, "https://"),
            ({"kind": "soft"}, "kind must be one of 'table', 'confusion', 'value'"),
            ({"rho": 0}, "rho must be a number"),
            ({"rho": float("nan")}, "rho must be a number"),
        ],
    )
    def test_settings(self, arguments, text):
        with pytest.raises(SettingError, match=text):
            RemoteMetric(**{"url": "http://127.0.0.1:1", "token": "psl_x", **arguments})

    def test_http_to_another_machine_gives_a_warning(self, served):
        elsewhere = RemoteMetric(served.url.replace("127.0.0.1", "0.0.0.0"), token=served.token)  # noqa: S104
        with contextlib.closing(elsewhere), pytest.warns(PostshiftWarning, match="is not encrypted"):
            assert elsewhere.budget()["spent"] == 0

    def test_http_on_this_machine_gives_none(self, served, recwarn):
        with remote(served) as metric:
            metric.budget()
        assert not recwarn.list


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
class TestEncryption:
    """A service with a certificate of its owner's own authority."""

    @pytest.fixture
    def encrypted(self, held, sqlite_url, tmp_path):
        """The URL, the token, and the file of the certificate."""
        files = {"ssl_certfile": str(tmp_path / "certificate.pem"), "ssl_keyfile": str(tmp_path / "key.pem")}
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
        words += ["-out", files["ssl_certfile"], "-keyout", files["ssl_keyfile"]]
        subprocess.run(words, check=True, capture_output=True)
        service = service_of(held, sqlite_url, tmp_path)
        with contextlib.closing(service.ledger) as ledger, running(create_app(service), **files) as url:
            _, token = ledger.create_token("a learner", scope="learner")
            yield url.replace("http://", "https://"), token, files["ssl_certfile"]

    def test_its_authority_is_named(self, encrypted):
        url, token, certificate = encrypted
        with contextlib.closing(RemoteMetric(url, token=token, verify=certificate)) as metric:
            assert metric.about.n_rows == N_ROWS

    def test_a_certificate_that_is_not_trusted_is_refused_at_once(self, encrypted):
        url, token, _ = encrypted
        metric = RemoteMetric(url, token=token, patience=1e9)
        with pytest.raises(RemoteError, match="certificate is not trusted here"):
            metric.budget()


class TestOwnMetrics:
    """An owner's function: the service names no metric, so that matrices need one from the learner."""

    @pytest.fixture
    def own(self, sqlite_url, tmp_path):
        def theirs(y_true, y_pred, sample_weight=None):
            return float(np.average(y_true == y_pred, weights=sample_weight))

        held = holdings(N_ROWS, **{**HELD["classes"], "metric": from_labels(theirs)})
        with serving(held, sqlite_url, tmp_path) as served:
            yield held, served

    def test_values_are_asked(self, own):
        held, served = own
        with remote(served) as metric:
            shifter = fitted(metric, held)
        hits = np.argmax(probabilities(held), axis=1) == held.labels
        assert shifter.base_score_ == pytest.approx(hits.mean())
        assert shifter.n_queries_ == served.spent

    def test_a_function_of_whole_rows_gets_labels(self, sqlite_url, tmp_path):
        """It has no value for distributions: they are refused, and not charged."""

        def streak(y_true, y_pred):
            return float(np.mean((y_true == y_pred)[:-1] & (y_true == y_pred)[1:]))

        held = holdings(N_ROWS, **{**HELD["classes"], "metric": streak})
        with serving(held, sqlite_url, tmp_path, kinds=("value",)) as served, remote(served) as metric:
            assert not metric.about.distributions
            shown = encoded(distributions(N_ROWS, 3), "f8")
            with pytest.raises(RemoteError, match="scores whole rows: send labels"):
                metric.asked({"kind": "value", "cost": 1, "predictions": shown})
            assert served.spent == 0
            shifter = fitted(metric, held)
            hits = shifter.held_out_.labels == held.labels
            assert shifter.score_ == pytest.approx(np.mean(hits[:-1] & hits[1:]))

    def test_a_value_that_is_none_is_explained(self, sqlite_url, tmp_path):
        def fails(y_true, y_pred):
            if (y_pred == 0).all():
                raise ZeroDivisionError("nobody was accepted")
            return float(y_true[0] == y_pred[0])

        held = holdings(N_ROWS, **{**HELD["classes"], "metric": fails})
        with serving(held, sqlite_url, tmp_path, kinds=("value",)) as served, remote(served) as metric:
            oracle = metric.oracle()
            asked = Query(key="", kind="hard", text="", n_rows=N_ROWS, _predict=lambda: np.zeros(N_ROWS, np.intp))
            with pytest.raises(MetricError, match=r"answered nan: the owner's metric has no value.*Tell the owner"):
                oracle.answer(asked)

    def test_a_function_that_counts_rows_on_both_sides(self, sqlite_url, tmp_path):
        def care(y_true, y_pred):
            return float(np.mean(np.where(y_true == 2, 3.0, 1.0) * (y_true == y_pred)))

        held = holdings(N_ROWS, **{**HELD["classes"], "metric": care})
        with serving(held, sqlite_url, tmp_path, kinds=("confusion",)) as served:
            with remote(served, metric=care) as metric:
                shifter = fitted(metric, held)
            assert shifter.score_ == pytest.approx(care(held.labels, shifter.held_out_.labels))

    def test_matrices_if_the_learner_gives_the_metric(self, own):
        held, served = own
        with remote(served, metric="accuracy") as metric:
            shifter = fitted(metric, held)
        assert shifter.score_ == pytest.approx(np.mean(shifter.held_out_.labels == held.labels))

    def test_matrices_without_a_metric_are_an_error(self, sqlite_url, tmp_path):
        def theirs(y_true, y_pred, sample_weight=None):
            return float(np.average(y_true == y_pred, weights=sample_weight))

        held = holdings(N_ROWS, **{**HELD["classes"], "metric": from_labels(theirs)})
        terms, text = {"kinds": ("confusion",)}, "must be known here"
        with serving(held, sqlite_url, tmp_path, **terms) as served, pytest.raises(SettingError, match=text):
            PostShifter(RemoteMetric(served.url, token=served.token), classes=held.classes).fit(probabilities(held))


class TestCopies:
    """Estimators are cloned with their metric."""

    def test_a_clone_has_the_same_connection(self, held, served):
        with remote(served) as metric:
            assert copy.deepcopy(metric) is metric
            shifter = clone(fitted(metric, held))
            assert shifter.metric is metric

    def test_grid_search(self, served, held):
        rng = np.random.default_rng(3)
        X, y = rng.normal(size=(200, 4)), rng.integers(held.n_classes, size=200)
        X[np.arange(200), y] += 1
        X_val = rng.normal(size=(held.n_rows, 4))
        X_val[np.arange(held.n_rows), held.labels] += 1
        with remote(served) as metric:
            model = PostShiftClassifier(LogisticRegression(), metric=metric, basis="constant", method="inverse prior")
            search = GridSearchCV(model, {"method": ["base", "inverse prior"]}, scoring="accuracy", cv=2, n_jobs=1)
            search.fit(X, y, X_val=X_val)
            assert search.best_estimator_.metric is metric
            assert search.best_estimator_.score_ > 0


class TestPrivateMode:
    """Answers with noise: the budget is divided, and the same fit again is free."""

    @pytest.mark.parametrize("kind", LOCAL)
    def test_a_fit_spends_what_it_may(self, kind, held, sqlite_url, tmp_path):
        terms = {"mode": "private", "kinds": tuple(LOCAL), "budget": 1_000_000}
        found = []
        with serving(held, sqlite_url, tmp_path, **terms) as served:
            for _ in range(2):
                with remote(served, kind=kind, rho=0.4) as metric:
                    shifter = fitted(metric, held, method="auto")
                    assert metric.about.is_private
                    assert metric.oracle(kind="confusion").noise > 0
                found.append(result_of(shifter))
                assert 0 < served.spent <= 400_000
        assert found[0] == found[1]

    def test_the_best_kind_is_a_table(self, held, served):
        with remote(served) as metric:
            assert metric.oracle().kind == "table"
            assert fitted(metric, held).n_queries_ == 1
        assert served.spent == 1


def test_metrics_over_groups_have_their_groups_at_the_service(served, held):
    """The learner's metric knows how many groups there are, and no row's group."""
    with remote(served, kind="confusion") as metric:
        psi = metric.as_metric(np.asarray(held.classes)).psi
    if held.groups is not None:
        assert isinstance(psi, GroupGMean)
    assert getattr(psi, "n_categories", held.n_classes) == held.n_categories


def test_the_command_line_sends_answers_without_delay():
    """Else the second part of every answer waits for the first to be acknowledged, 40 ms."""
    with _listening("127.0.0.1", 0) as place:
        assert place.proto == socket.IPPROTO_TCP  # what asyncio asks for before it sets TCP_NODELAY


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:8000", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:80/x", True),
        ("http://localhost:80@elsewhere.example", False),
        ("http://127.0.0.1.elsewhere.example", False),
        ("http://[::1", False),
    ],
)
def test_which_addresses_are_of_this_machine(url, local):
    """Tokens to other machines need encryption."""
    assert _is_local(url) == local


def test_warnings_of_small_samples_are_given(few):
    with few() as served, remote(served) as metric, pytest.warns(SmallValidationWarning, match="90 validation rows"):
        fitted(metric, holdings(N_ROWS, **HELD["classes"]))
