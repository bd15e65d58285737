"""Routing of ``fit(..., **params)`` to the base model, the metric and the splitter.

With scikit-learn's metadata routing enabled, requests decide. Without it, names decide: arguments that the metric reads
go to the metric, ``groups`` to a metric over groups and to a splitter that uses groups, everything else to the model's
fit. If both read groups and there is a validation sample, ``groups_val`` are the groups of its rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn import get_config
from sklearn.utils.metadata_routing import (
    MetadataRequest,
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.validation import has_fit_parameter

from postshift.estimators.subject_to import names_read
from postshift.exceptions import SettingError
from postshift.metrics.resolve import GROUPS

WEIGHT = "sample_weight"
OF_VAL = "groups_val"


@dataclass(frozen=True, kw_only=True)
class Routed:
    """Parameters by receiver; those of the metric are about the validation rows."""

    model: Mapping[str, Any]
    metric: Mapping[str, Any]
    splitter: Mapping[str, Any]


def router_of(owner: Any) -> MetadataRouter:
    """Return the routing of a PostShiftClassifier."""
    mapping = MethodMapping
    return (
        MetadataRouter(owner=owner)
        .add_self_request(owner)
        .add(estimator=owner.estimator, method_mapping=mapping().add(caller="fit", callee="fit"))
        .add(splitter=owner.cv, method_mapping=mapping().add(caller="fit", callee="split"))
        .add(metric=_request(owner), method_mapping=mapping().add(caller="fit", callee="score"))
        .add(metric_of_score=_request(owner), method_mapping=mapping().add(caller="score", callee="score"))
    )


def routed_to_score(owner: Any, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of ``score(..., **params)`` for the metric."""
    if get_config()["enable_metadata_routing"]:
        found: Mapping[str, Any] = process_routing(owner, "score", **params).metric_of_score.score
        return found
    return params


def routed(owner: Any, params: Mapping[str, Any], sample_weight: Any, *, has_val: bool) -> Routed:
    """Return the parameters by receiver; weights are for the model's fit, if it takes them."""
    weights = {} if sample_weight is None else {WEIGHT: sample_weight}
    if get_config()["enable_metadata_routing"]:
        found = process_routing(owner, "fit", **params, **weights)
        metric = {name: value for name, value in found.metric.score.items() if name != WEIGHT}  # rows have their own
        return Routed(model=found.estimator.fit, metric=metric, splitter=found.splitter.split)
    if weights and not has_fit_parameter(owner.estimator, WEIGHT):
        warnings.warn(
            f"{type(owner.estimator).__name__} takes no sample_weight in fit: the weights are used for the rule only",
            UserWarning,
            stacklevel=3,
        )
        weights = {}
    given = _by_name(owner, params, has_val=has_val)
    return Routed(model={**given.model, **weights}, metric=given.metric, splitter=given.splitter)


def _by_name(owner: Any, params: Mapping[str, Any], *, has_val: bool) -> Routed:
    """Return the parameters by receiver, decided by their names."""
    wanted = names_read(owner)
    metric = {name: value for name, value in params.items() if name in wanted}
    splitter = {GROUPS: params[GROUPS]} if GROUPS in params and honours_groups(owner.cv) else {}
    if GROUPS in wanted and OF_VAL in params:
        metric[GROUPS] = params[OF_VAL]
    elif GROUPS in metric and splitter and has_val:
        raise SettingError(
            f"metric {owner.metric!r} and cv {owner.cv!r} both read groups, but of different rows: "
            f"pass groups=... for the training rows and {OF_VAL}=... for the validation rows"
        )
    rest = {name: value for name, value in params.items() if name not in {*wanted, OF_VAL}}
    if GROUPS in rest and not has_fit_parameter(owner.estimator, GROUPS):
        rest.pop(GROUPS)
        if not splitter:
            raise SettingError(
                f"groups were given, but neither metric {owner.metric!r} nor cv {owner.cv!r} reads them: choose a "
                "metric over groups ('worst_group_accuracy', ...) or a splitter that uses groups (GroupKFold, ...)"
            )
    return Routed(model=rest, metric=metric, splitter=splitter)


def honours_groups(cv: Any) -> bool:
    """Return whether a splitter keeps groups together."""
    if not hasattr(cv, "split"):
        return False
    return bool(get_routing_for_object(cv).split.requests.get(GROUPS))


def _request(owner: Any) -> Any:
    """Return the routing of the metric: a scorer's own, or a request for what metric and constraints read."""
    if hasattr(owner.metric, "get_metadata_routing"):
        return owner.metric
    request = MetadataRequest(owner="metric")
    for name in names_read(owner):
        request.score.add_request(param=name, alias=True)
    return request
