"""The training of a network: batches, the loss, one cycle of the learning rate, epochs that can be resumed.

Everything random in an epoch comes from the seed and the number of the epoch. An interrupted training resumes bit for
bit, and processes that train together draw the same batches without communication.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from postshift._validation import FloatArray, IntArray
from postshift.baselines._checkpoint import Checkpoint, digest
from postshift.baselines._processes import GONE, Follower, Leader, Member
from postshift.baselines.networks import build_network, torch_module
from postshift.exceptions import ShapeError

Weights = dict[str, npt.NDArray[Any]]

MOMENTUM = 0.9
WARM_UP = 0.15  # share of the steps until the peak of the learning rate
PADDING = 4  # largest shift of an image in pixels
BLOCK = 512  # rows in a batch of predictions


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The network and how it is trained; the learning rate is constant unless ``cyclic``."""

    network: Any
    n_classes: int
    input_shape: tuple[int, ...]
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int
    augment: bool = False
    cyclic: bool = True
    n_threads: int = 1
    n_processes: int = 1

    def rate(self, step: int, n_steps: int) -> float:
        """Return the learning rate of a step: linear up to the peak, then half a cosine down to 0."""
        if not self.cyclic:
            return self.learning_rate
        time = (step + 1) / (n_steps + 1)
        if time < WARM_UP:
            return self.learning_rate * time / WARM_UP
        return self.learning_rate * (1 + math.cos(math.pi * (time - WARM_UP) / (1 - WARM_UP))) / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class TensorRows:
    """Rows (float32), labels as positions among the classes, and weights of mean 1 or None; in a batch, as tensors."""

    X: Any
    y: Any
    weights: Any = None

    def batch(self, rows: IntArray, *moves: Any) -> TensorRows:
        """Return the tensors of some rows, with images moved and mirrored as in `augmented`."""
        torch = torch_module()
        x = torch.tensor(self.X[rows])
        weights = None if self.weights is None else torch.tensor(self.weights[rows], dtype=x.dtype)
        x = laid_out(augmented(x, *moves) if moves else x)
        return TensorRows(X=x, y=torch.tensor(self.y[rows]), weights=weights)


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Progress of a training: the number of the epoch, from 1, the number of epochs, and the mean loss of its steps."""

    number: int
    n_epochs: int
    loss: float


class Objective(Protocol):
    """A loss to minimise."""

    @property
    def identity(self) -> str:
        """A text that tells this loss from others of the same class."""

    def __call__(self, network: Any, batch: TensorRows, rng: np.random.Generator) -> Any:
        """Return the mean loss of a batch, a tensor."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossEntropy:
    """The mean cross-entropy of labels, after a transition matrix if one is given (forward correction)."""

    log_transition: FloatArray | None = None

    @property
    def identity(self) -> str:
        """A digest of the transition."""
        return digest(self.log_transition)

    def __call__(self, network: Any, batch: TensorRows, rng: np.random.Generator) -> Any:  # noqa: ARG002
        """Return the mean loss of a batch."""
        losses = row_losses(network(batch.X), batch.y, self.log_transition)
        return losses.mean() if batch.weights is None else (batch.weights * losses).mean()


def row_losses(logits: Any, y: Any, log_transition: FloatArray | None = None) -> Any:
    """Return ``-log (T' softmax(logits))_y`` of every row; T is the identity by default.

    Small probabilities are not lost to rounding, and T = I gives exactly the same numbers as no T.
    """
    torch = torch_module()
    if log_transition is None:
        return torch.nn.functional.cross_entropy(logits, y, reduction="none")
    reached = torch.as_tensor(log_transition, dtype=logits.dtype)[:, y].T
    return -torch.logsumexp(torch.log_softmax(logits, dim=1) + reached, dim=1)


def augmented(x: Any, offsets: IntArray, flips: npt.NDArray[np.bool_]) -> Any:
    """Return images (n, channels, height, width), moved by up to ``PADDING`` pixels, those of ``flips`` mirrored.

    Images are padded with zeros. ``offsets`` (n, 2) are the row and the column of the padded image where the new one
    begins; ``PADDING`` means no shift.
    """
    torch = torch_module()
    n_rows, _, height, width = x.shape
    padded = torch.nn.functional.pad(x, (PADDING,) * 4)
    columns = np.where(flips[:, None], np.arange(width)[::-1], np.arange(width)) + offsets[:, 1:]
    lines = np.arange(height) + offsets[:, :1]
    where = (np.arange(n_rows)[:, None, None], lines[:, :, None], columns[:, None, :])
    image, line, column = (torch.from_numpy(np.ascontiguousarray(each)) for each in where)
    return padded[image, :, line, column].permute(0, 3, 1, 2)


class Training:
    """A network in training: its weights, the momentum of its descent, and the losses of the finished epochs."""

    def __init__(self, recipe: Recipe, *, start: Mapping[str, Any] | None = None) -> None:
        self.recipe = recipe
        self.network = new_network(
            recipe.network, recipe.n_classes, recipe.input_shape, weights=start, seed=recipe.seed
        )
        self.losses: list[float] = []
        self._trained = [each for each in self.network.parameters() if each.requires_grad]
        self._momentum = [torch_module().zeros_like(each) for each in self._trained]

    @property
    def weights(self) -> Weights:
        """A copy of the weights by name."""
        return {name: np.array(tensor.numpy()) for name, tensor in self.network.state_dict().items()}

    @property
    def state(self) -> Weights:
        """Everything that the next epoch depends on."""
        found = {f"weights/{name}": array for name, array in self.weights.items()}
        return found | {f"momentum/{k}": np.array(each.numpy()) for k, each in enumerate(self._momentum)}

    def restore(self, losses: list[float], state: Mapping[str, Any]) -> None:
        """Restore the state after ``len(losses)`` epochs."""
        torch = torch_module()
        self.losses = list(losses)
        load_weights(self.network, _under("weights/", state))
        for k, each in enumerate(self._momentum):
            each.copy_(torch.tensor(state[f"momentum/{k}"]))

    def run_epoch(self, sample: TensorRows, objective: Objective, member: Member) -> None:
        """Train for an epoch, as one of several processes that share each batch."""
        n_steps = math.ceil(len(sample.y) / self.recipe.batch_size)
        n_done = n_steps * len(self.losses)
        self.network.train()
        total = 0.0
        for step, (batch, share, rng) in enumerate(self._batches(sample, n_steps, member), start=n_done):
            self.network.zero_grad()
            loss = 0.0
            if share > 0:
                part = objective(self.network, batch, rng) * share
                part.backward()
                loss = part.item()
            total += loss if member.size == 1 else _sum_gradients(self._trained, loss, member)
            self._descend(self.recipe.rate(step, n_steps * self.recipe.epochs))
        self.losses.append(total / n_steps)
        self._check_finite()

    def _descend(self, rate: float) -> None:
        """Make a step of Nesterov's method; torch's optimisers take seconds to import."""
        with torch_module().no_grad():
            for parameter, momentum in zip(self._trained, self._momentum, strict=True):
                if parameter.grad is not None:
                    slope = parameter.grad.add(parameter, alpha=self.recipe.weight_decay)
                    momentum.mul_(MOMENTUM).add_(slope)
                    parameter.sub_(slope.add_(momentum, alpha=MOMENTUM), alpha=rate)

    def _batches(
        self, sample: TensorRows, n_steps: int, member: Member
    ) -> Iterator[tuple[TensorRows, float, np.random.Generator]]:
        """Yield, for every step of an epoch, a process's part of the batch, its share of the batch, and a generator."""
        seed, epoch = self.recipe.seed, len(self.losses)
        rng = np.random.default_rng([seed, epoch])
        torch_module().manual_seed(int(rng.integers(2**62)) + member.rank)
        for step, rows in enumerate(np.array_split(rng.permutation(len(sample.y)), n_steps)):
            own = member.part(rows)
            moves = _drawn_moves(len(rows), rng) if self.recipe.augment else ()
            batch = sample.batch(own, *(member.part(each) for each in moves))
            yield batch, len(own) / len(rows), np.random.default_rng([seed, epoch, step, member.rank])

    def _check_finite(self) -> None:
        """Raise if a weight or the loss is not finite."""
        finite = all(bool(each.isfinite().all()) for each in self.network.parameters())
        if not (finite and math.isfinite(self.losses[-1])):
            raise FloatingPointError(
                f"the training diverged in epoch {len(self.losses)} (loss {self.losses[-1]:g}): lower learning_rate "
                f"({self.recipe.learning_rate:g}), or scale X to mean 0 and variance 1"
            )


def train(
    training: Training,
    sample: TensorRows,
    objective: Objective,
    *,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[Epoch], object] | None = None,
) -> None:
    """Train for the remaining epochs, with the number of processes of the recipe."""
    recipe = training.recipe
    saved = None if checkpoint is None else checkpoint.load()
    if saved is not None:
        training.restore(*saved)
    if len(training.losses) == recipe.epochs:
        return
    with _team(training, sample, objective) as member:
        while len(training.losses) < recipe.epochs:
            training.run_epoch(sample, objective, member)
            if checkpoint is not None:
                checkpoint.save(training.losses, training.state)
            if progress is not None:
                progress(Epoch(number=len(training.losses), n_epochs=recipe.epochs, loss=training.losses[-1]))


def _team(training: Training, sample: TensorRows, objective: Objective) -> AbstractContextManager[Member]:
    """Return this process, alone or as the leader of others."""
    recipe = training.recipe
    if recipe.n_processes == 1:
        return nullcontext(Member())
    return Leader(recipe.n_processes, _follow, (recipe, list(training.losses), training.state, sample, objective))


def _follow(follower: Follower, job: tuple[Recipe, list[float], Weights, TensorRows, Objective]) -> None:
    """Train together with the leader; end silently if the leader has ended."""
    recipe, losses, state, sample, objective = job
    with torch_settings(recipe.n_threads):
        training = Training(recipe)
        training.restore(losses, state)
        try:
            while len(training.losses) < recipe.epochs:
                training.run_epoch(sample, objective, follower)
        except (*GONE, KeyboardInterrupt, FloatingPointError):  # the leader reports it
            return


@contextmanager
def torch_settings(n_threads: int) -> Iterator[None]:
    """Set the number of torch's threads; at the end, restore it and the state of the random numbers."""
    torch = torch_module()
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(before)


def new_network(
    network: Any,
    n_classes: int,
    input_shape: tuple[int, ...],
    *,
    weights: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Any:
    """Return a network with given weights, or with random weights from a seed."""
    torch = torch_module()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build_network(network, n_classes, input_shape)
    if len(input_shape) == 3:
        network = network.to(memory_format=torch.channels_last)
    if weights is not None:
        load_weights(network, weights)
    return network


def load_weights(network: Any, weights: Mapping[str, Any]) -> None:
    """Set the weights of a network; raise if they do not fit."""
    torch = torch_module()
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    given = {name: np.shape(array) for name, array in weights.items()}
    if expected != given:
        names = sorted(name for name in expected.keys() | given.keys() if expected.get(name) != given.get(name))
        raise ShapeError(
            f"the weights belong to another network: {len(names)} arrays do not fit, e.g. {names[0]!r} of shape "
            f"{given.get(names[0], 'none')}, which must be {expected.get(names[0], 'none')}"
        )
    network.load_state_dict({name: torch.tensor(np.asarray(array)) for name, array in weights.items()})


def outputs(network: Any, X: Any, *, layer: Any = None) -> FloatArray:
    """Return the logits of rows, or the input of a layer, flattened to (n, d)."""
    torch = torch_module()
    seen: list[Any] = []
    hook = None if layer is None else layer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    network.eval()
    parts = []
    try:
        with torch.inference_mode():
            for rows in gen_batches(len(X), BLOCK):
                logits = network(laid_out(torch.tensor(X[rows])))
                parts.append((logits if layer is None else seen.pop()).reshape(rows.stop - rows.start, -1).numpy())
    finally:
        if hook is not None:
            hook.remove()
    return np.concatenate(parts).astype(np.float64)


def _drawn_moves(n_rows: int, rng: np.random.Generator) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return random offsets of images and which images to mirror."""
    return rng.integers(2 * PADDING + 1, size=(n_rows, 2)), rng.random(n_rows) < 0.5


def laid_out(x: Any) -> Any:
    """Return images in the fastest memory layout for convolutions; other rows unchanged."""
    return x.contiguous(memory_format=torch_module().channels_last) if x.ndim == 4 else x


def _sum_gradients(parameters: list[Any], loss: float, member: Member) -> float:
    """Replace the gradients by their sums over all processes, and return the sum of the losses."""
    torch = torch_module()
    parts = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters]
    total = torch.tensor(member.summed(torch.cat([*parts, torch.tensor([loss])]).numpy()))
    sums = total.split([*(p.numel() for p in parameters), 1])
    for parameter, values in zip(parameters, sums, strict=False):
        parameter.grad = values.view(parameter.shape)
    return float(sums[-1])


def _under(prefix: str, state: Mapping[str, Any]) -> Weights:
    """Return the arrays whose names begin with a prefix, named without it."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
