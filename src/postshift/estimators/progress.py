"""Progress of a fit, reported to scikit-learn's callbacks; scikit-learn before 1.9 has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    WRAPPED = 1  # frames that the decorator adds between a caller and fit
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Has no callbacks."""

    WRAPPED = 0

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


Step = Callable[[str], None]

__all__ = ["WRAPPED", "CallbackSupportMixin", "Progress", "Step", "with_callbacks"]


class Progress:
    """The stages of one fit, each a number of steps.

    Parameters
    ----------
    estimator : estimator
        The estimator whose callbacks are called.
    n_stages : int
        The number of stages.
    """

    def __init__(self, estimator: Any, *, n_stages: int) -> None:
        self._estimator = estimator
        begin = getattr(estimator, "_init_callback_context", None)
        self._root = None if begin is None else begin(max_subtasks=n_stages)

    def __enter__(self) -> Self:
        """Begin."""
        if self._root is not None:
            self._root.call_on_fit_task_begin(estimator=self._estimator)
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._estimator)

    @contextmanager
    def stage(self, name: str, n_steps: int | None) -> Iterator[Step]:
        """Open a stage; call the function it yields with the name of each step as it begins."""
        if self._root is None:
            yield lambda _: None
            return
        stage = self._root.subcontext(task_name=name, max_subtasks=n_steps)
        stage.call_on_fit_task_begin(estimator=self._estimator)
        running: list[Any] = []

        def end() -> None:
            while running:
                running.pop().call_on_fit_task_end(estimator=self._estimator)

        def step(what: str) -> None:
            end()
            running.append(stage.subcontext(task_name=what))
            running[-1].call_on_fit_task_begin(estimator=self._estimator)

        try:
            yield step
        finally:
            end()
            stage.call_on_fit_task_end(estimator=self._estimator)
