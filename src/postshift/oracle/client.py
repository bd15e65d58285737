"""The learner's side: a metric whose labels stay with their owner, at a URL."""

from __future__ import annotations

import csv
import io
import math
import os
import random
import re
import ssl
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, NoReturn
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from postshift._installing import needed
from postshift._validation import IntArray
from postshift.core.psi import ConfusionMetric
from postshift.core.queries import KindName
from postshift.exceptions import (
    BadQueryError,
    BudgetEndedError,
    MetricError,
    PostshiftWarning,
    RemoteError,
    SettingError,
)
from postshift.metrics import CellMetric, LabelFunction, OracleMetric, from_oracle, resolve_metric
from postshift.oracle.remote_oracle import RemoteOracle
from postshift.oracle.wire import MICRO, decoded

TOKEN_VARIABLE = "POSTSHIFT_TOKEN"  # noqa: S105 -- the name of a variable of the environment
PATIENCE = 300.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_WARNED_FROM = 3.0  # seconds: a shorter pause needs no warning
_AGAIN = (429, 502, 503, 504)
_WANTED = ("table", "confusion", "value")  # the best first
_SHOWN_AS: dict[str, KindName] = {"table": "table", "confusion": "confusion"}
_SHOWN_IN_PRIVATE: dict[str, KindName] = {"table": "table", "confusion": "table"}  # one table is worth more than steps
_ENDED = ("over_budget", "token_budget")
_HOPELESS = {  # problems that do not pass, and what to do
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted here; verify=FILE names your own authority",
    "WRONG_VERSION_NUMBER": "it does not speak TLS; should the URL begin with http://?",
    "Name or service not known": "there is no such host; check the URL",
    "nodename nor servname": "there is no such host; check the URL",
    "UnsupportedProtocol": "check the URL",
    "LocalProtocolError": "check the URL and the token",
}
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, kw_only=True)
class About:
    """What a service says of itself.

    Attributes
    ----------
    title : str
        What the data set is called.
    mode : str
        "private" (answers with noise, a budget of rho) or "trusted" (exact answers, a budget of queries).
    kinds : tuple of str
        Which kinds of query are answered.
    metric : str or None
        The name of the metric; None if it is the owner's own function.
    classes, groups : tuple of str
        Names of the classes and groups.
    most_counts : int
        The most counts of an answer. ``n_rows`` is the number of validation rows, ``n_categories`` that of categories:
        classes, or (group, class) pairs.
    scale : float
        The width of the range of the metric.
    distributions : bool
        Whether the metric has a value for distributions; a function of whole rows has one for labels only.
    allowance : int
        The most that this token may spend, of the whole budget.
    budget : mapping
        All of the budget, what is spent and what is left.
    """

    title: str
    mode: str
    kinds: tuple[str, ...]
    metric: str | None
    metric_name: str
    classes: tuple[str, ...]
    groups: tuple[str, ...]
    n_rows: int
    n_categories: int
    scale: float
    distributions: bool
    most_counts: int
    allowance: int
    budget: Mapping[str, Any] = field(repr=False)

    @property
    def is_private(self) -> bool:
        """Whether answers have noise."""
        return self.mode == "private"


class RemoteMetric:
    """A metric that a service answers (``postshift oracle serve``); its labels stay there.

    Give it to an estimator as ``metric``. The validation rows are those of the service, in its order (:meth:`rows`).
    The best kind of query that the service allows is used: a table (one query, then everything is fitted at
    home), confusion matrices, or values. In private mode, confusion matrices are asked for once, as a table. The same
    query is never paid twice, so a broken connection costs nothing, and neither does a second fit with the same
    data.

    Parameters
    ----------
    url : str
        Where the service is, such as ``https://labels.example.org``.
    token : str, optional
        The token that the owner created; by default the variable POSTSHIFT_TOKEN of the environment.
    kind : {"table", "confusion", "value"}, optional
        Which kind of query is asked; by default the best one that is allowed.
    rho : float, optional
        Private mode: how much of the budget a fit may spend; by default all of it, or all that the token may spend.
    metric : str or metric, optional
        The metric as a function of the confusion matrix, if the service does not name it.
    scale : float, optional
        The width of the range of the metric, if it is the owner's own function; by default 1.
    patience : float, default=300
        For how many seconds a request is repeated while the service cannot be reached.
    verify : bool or str, default=True
        Whether the certificate is checked; a path names the file of your own authority.

    Examples
    --------
    >>> RemoteMetric("http://127.0.0.1:8000", token="psl_example")
    RemoteMetric('http://127.0.0.1:8000')
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        kind: str | None = None,
        rho: float | None = None,
        metric: Any = None,
        scale: float | None = None,
        patience: float = PATIENCE,
        verify: bool | str = True,
    ) -> None:
        if not str(url).startswith(("https://", "http://")):
            raise SettingError(f"url must begin with https:// or http://. Got {url!r}")
        if kind is not None and kind not in _WANTED:
            raise SettingError(f"kind must be one of {', '.join(map(repr, _WANTED))}. Got {kind!r}")
        for name, given, least in (("rho", rho, 1 / MICRO), ("scale", scale, 1e-12)):
            if given is not None and not (isinstance(given, Real) and least <= given < math.inf):
                raise SettingError(f"{name} must be a number from {least:g}. Got {given!r}")
        self.url, self.kind, self.rho, self.metric = str(url).rstrip("/"), kind, rho, metric
        self.patience, self.verify, self.scale = patience, verify, scale
        self._token = (token or os.environ.get(TOKEN_VARIABLE) or "").strip()
        if not self._token:
            raise SettingError(f"give the token of the service: token=..., or set {TOKEN_VARIABLE}")
        if not _TOKEN.fullmatch(self._token):
            raise SettingError("the token has spaces or letters that no token has: copy it again, without its name")

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"{type(self).__name__}({self.url!r})"

    def __deepcopy__(self, _: Any) -> RemoteMetric:
        """Return the metric itself: estimators are cloned with their parameters."""
        return self

    def __getstate__(self) -> NoReturn:
        """Raise: a saved metric would hold the token."""
        raise TypeError("a RemoteMetric has a token, so it is not saved or sent to other processes: make it anew there")

    @cached_property
    def about(self) -> About:
        """What the service says of itself; it is asked once."""
        found = self._json("GET", "/v1/about", needed="budget")
        try:
            return self._about(found)
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteError(
                f"{self.url} does not describe itself as a postshift oracle does ({type(error).__name__}: {error}): is "
                "it one, of this version?"
            ) from error

    @staticmethod
    def _about(found: Mapping[str, Any]) -> About:
        """Return what a service says of itself; raise if that cannot be."""
        n_classes = len(found["classes"])
        n_groups = len(found["groups"]) if found["categories"] != n_classes else 1
        if found["categories"] != n_classes * n_groups or min(found["allowance"], found["rows"]) < 1:
            raise ValueError(f"{found['categories']} categories, {found['rows']} rows, {found['allowance']} to spend")
        return About(
            title=found["title"],
            mode=found["mode"],
            kinds=tuple(found["kinds"]),
            metric=found["metric"],
            metric_name=found["metric_name"],
            classes=tuple(found["classes"]),
            groups=tuple(found["groups"]),
            n_rows=found["rows"],
            n_categories=found["categories"],
            scale=found["scale"],
            distributions=found["distributions"],
            most_counts=found["most_counts"],
            allowance=found["allowance"],
            budget=found["budget"],
        )

    def budget(self) -> dict[str, Any]:
        """Return the budget now: all of it, what is spent, and what is left."""
        found: dict[str, Any] = self._json("GET", "/v1/about", needed="budget")["budget"]
        return found

    def rows(self) -> dict[str, list[str]]:
        """Return the identifiers and the released features of the validation rows: column names and their texts."""
        lines = list(csv.reader(io.StringIO(self._request("GET", "/v1/rows").text)))
        return {name: [line[place] for line in lines[1:]] for place, name in enumerate(lines[0])}

    def frame(self) -> Any:
        """Return the identifiers and the released features as a pandas data frame."""
        pandas = needed("pandas")
        return pandas.read_csv(io.StringIO(self._request("GET", "/v1/rows").text), dtype={0: str})

    def oracle(self, *, classes: Sequence[Any] | None = None, kind: KindName | None = None) -> RemoteOracle:
        """Return the service as an oracle for :func:`postshift.fw_eg` and the other calls of the core.

        Parameters
        ----------
        classes : sequence, optional
            The class labels in the order of the columns of eta; by default the order of the service.
        kind : {"table", "confusion", "soft", "hard"}, optional
            The kind of query; by default the best one that is allowed.
        """
        shown = kind or self._shown_as[self._best_kind()]
        return RemoteOracle(self, kind=shown, order=self._order(classes))

    def as_metric(self, classes: Any) -> OracleMetric:
        """Return the metric in the form that the estimators work with."""
        kind = self._best_kind()
        return from_oracle(
            self.oracle(classes=classes, kind=self._shown_as[kind]),
            metric=None if kind == "value" else self._psi(classes),
            name=self.about.metric_name,
            scale=self.scale or self.about.scale,
        )

    def asks(self, kind: str) -> bool:
        """Return whether queries of this kind are asked."""
        return kind == self.kind or (self.kind is None and kind in self.about.kinds)

    def asked(self, body: dict[str, Any], *, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
        """Return the answer to the body of a query; raise unless it has this shape, if one is given."""
        try:
            found = self._json("POST", "/v1/answers", needed="answer", json=body)["answer"]
        except BudgetEndedError as error:
            if not (self.about.is_private and error.left):
                raise
            rho = f"{error.left / MICRO:g}"
            text = f"{error}; or spend at most what is left, rho={rho} (in the terminal --rho {rho})"
            raise BudgetEndedError(text, left=error.left) from error
        try:
            answer = decoded(found, name="the answer")
        except (KeyError, TypeError, BadQueryError) as error:
            raise RemoteError(f"the answer of {self.url} is no array ({error}): is it a postshift oracle?") from error
        if shape is not None and answer.shape != shape:
            raise RemoteError(f"the answer of {self.url} must have shape {shape}. Got {answer.shape}")
        return answer

    @property
    def _shown_as(self) -> dict[str, KindName]:
        """The kind of query in the core for each kind of the service."""
        value: KindName = "soft" if self.about.distributions else "hard"
        return {**(_SHOWN_IN_PRIVATE if self.about.is_private else _SHOWN_AS), "value": value}

    def _psi(self, classes: Any) -> ConfusionMetric | None:
        """Return the metric as a function of the confusion matrix."""
        found = self.metric if self.metric is not None else self.about.metric
        n_groups = len(self.about.groups) or None
        psi = resolve_metric(found, classes=np.asarray(classes), n_groups=n_groups)
        if isinstance(psi, LabelFunction) and not psi.metadata:  # the service counts rows, so its metric reads counts
            psi = CellMetric(psi, np.asarray(classes), total=float(self.about.n_rows), whole_rows=True)
        if not isinstance(psi, ConfusionMetric):
            raise MetricError(
                f"metric {psi.name!r} is not known to be one of the confusion matrix: give the function an argument "
                "sample_weight, or wrap it in postshift.metrics.from_confusion"
            )
        n_read = int(getattr(psi, "n_categories", len(self.about.classes)))
        if n_read != self.about.n_categories:
            raise SettingError(
                f"{self.url} counts {self.about.n_categories} categories of rows (classes, or pairs of group and "
                f"class), and metric {psi.name!r} reads {n_read}: leave metric= out, or give one that fits"
            )
        return psi

    def _best_kind(self) -> str:
        """Return the kind that was asked for, or the best one that is allowed and can be used."""
        about = self.about
        known = self.metric is not None or about.metric is not None
        usable = [kind for kind in _WANTED if kind in about.kinds and (known or kind == "value")]
        if self.kind is not None and self.kind not in about.kinds:
            raise SettingError(f"{self.url} answers queries of kind {' and '.join(about.kinds)}, not {self.kind!r}")
        if not usable:
            raise SettingError(
                f"{self.url} answers {' and '.join(about.kinds)}, for which the metric must be known here, but it is "
                "the owner's own function: give RemoteMetric(..., metric=...), or ask the owner to allow values. In "
                "the terminal, make the RemoteMetric in a file and give --metric FILE.py:NAME"
            )
        return self.kind or usable[0]

    def _order(self, classes: Sequence[Any] | None) -> IntArray:
        """Return, for each class here, its position at the service."""
        names = self.about.classes
        given = list(names) if classes is None else [str(each) for each in np.asarray(classes).tolist()]
        if sorted(given) != sorted(names):
            raise SettingError(
                f"the classes here are {given[:10]}, those of the service {list(names)[:10]}: give classes=[...]"
            )
        return np.array([names.index(each) for each in given])

    # -- requests -----------------------------------------------------------------------------------------

    @cached_property
    def _client(self) -> Any:
        """The connection."""
        httpx = needed("httpx")
        if self.url.startswith("http://") and not _is_local(self.url):
            warnings.warn(
                f"{self.url} is not encrypted: anybody on the way can read the token. Use https",
                PostshiftWarning,
                stacklevel=2,
            )
        verify = ssl.create_default_context(cafile=self.verify) if isinstance(self.verify, str) else self.verify
        client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=60.0,
            verify=verify,
            trust_env=not _is_local(self.url),  # a proxy of the environment would get the token
        )
        weakref.finalize(self, client.close)  # if nobody calls close()
        return client

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        if "_client" in vars(self):
            self._client.close()
            del self._client

    def _json(self, method: str, path: str, *, needed: str, **body: Any) -> dict[str, Any]:
        """Return the body of a response."""
        response = self._request(method, path, **body)
        try:
            found: dict[str, Any] = response.json()
        except ValueError as error:
            raise RemoteError(f"{self.url}{path} did not answer with JSON: is it a postshift oracle?") from error
        if not isinstance(found, dict) or needed not in found:
            raise RemoteError(f"{self.url}{path} did not answer with {needed!r}: is it a postshift oracle?")
        return found

    def _request(self, method: str, path: str, **body: Any) -> Any:
        """Send a request until there is a response; queries are free the second time, so that none is paid twice."""
        import httpx

        end, pause = time.monotonic() + self.patience, _FIRST_PAUSE
        while True:
            try:
                found = self._client.request(method, path, **body)
            except httpx.TransportError as error:
                problem: str = f"{type(error).__name__}: {error}"
                self.close()
                remedy = next((text for name, text in _HOPELESS.items() if name in problem), None)
                if remedy is not None:
                    raise RemoteError(f"{self.url} cannot be reached ({problem}): {remedy}") from error
            else:
                if found.status_code not in _AGAIN:
                    return found if found.is_success else _raise_refusal(found, self.url)
                problem = _message(found)[1]
            if time.monotonic() + pause > end:
                raise RemoteError(
                    f"{self.url} could not be reached for {self.patience:g} s ({problem}): try again later"
                )
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 -- spreads learners  # nosec B311
            if pause < _WARNED_FROM <= 2 * pause:
                text = f"{self.url} does not answer ({problem}): trying again for {end - time.monotonic():.0f} s"
                warnings.warn(text, PostshiftWarning, stacklevel=2)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _is_local(url: str) -> bool:
    """Return whether a URL is of this machine."""
    try:
        host = urlsplit(url).hostname
    except ValueError:  # half a bracket
        return False
    return host in ("localhost", "127.0.0.1", "::1")


def _message(response: Any) -> tuple[str, str]:
    """Return code and message of a refusal."""
    try:
        found = response.json()["error"]
        return str(found["code"]), str(found["message"])
    except (ValueError, KeyError, TypeError):
        return "", f"HTTP {response.status_code}"


def _raise_refusal(response: Any, url: str) -> NoReturn:
    """Raise the refusal of a service as an error of this library."""
    code, message = _message(response)
    if code in _ENDED:
        raise BudgetEndedError(f"{url}: {message}", left=response.json()["error"].get("left"))
    error = RemoteError(f"{url} refused ({code or response.status_code}): {message}")
    error.code = code
    raise error
