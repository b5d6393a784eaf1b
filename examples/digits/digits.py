"""Data-parallel training on handwritten digits, compared with training in one process.

Every rank computes the gradient of its part of each batch; the sum over all ranks, divided by the
size of the batch, is the gradient of the whole batch. Rank 0 then trains once more alone, on the
same batches, and compares: both runs compute the same numbers, added up in another order. Addition
of floats rounds, so the sums differ in the last bits (a sum over 180 samples, against three sums
over 60), and each step carries the difference on. TOLERANCE bounds what has come of it in the end.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

import lycaon

Floats = NDArray[np.float32]

HIDDEN = 32
BATCH = 180
EPOCHS = 40
RATE = 0.5
TOLERANCE = 1e-5
"""Largest difference of a loss or a weight, for weights of about 1; typical is 5e-7."""


def initial_weights() -> Floats:
    """Weights and biases of both layers in one vector, so that one all_reduce moves them all."""
    draw = np.random.default_rng(0).normal
    layers = [draw(0, 0.15, 64 * HIDDEN), np.zeros(HIDDEN), draw(0, 0.2, HIDDEN * 10), np.zeros(10)]
    return np.concatenate(layers).astype(np.float32)


def layers(vector: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The parts of the vector, as views."""
    first, second, third = 64 * HIDDEN, 64 * HIDDEN + HIDDEN, 64 * HIDDEN + HIDDEN + HIDDEN * 10
    return (
        vector[:first].reshape(64, HIDDEN),
        vector[first:second],
        vector[second:third].reshape(HIDDEN, 10),
        vector[third:],
    )


def forward(weights: Floats, images: Floats) -> tuple[Floats, Floats]:
    """Hidden activations and the logarithms of the probabilities."""
    w1, b1, w2, b2 = layers(weights)
    hidden = np.tanh(images @ w1 + b1)
    scores = hidden @ w2 + b2
    scores -= scores.max(axis=1, keepdims=True)
    return hidden, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def loss_and_gradient(weights: Floats, images: Floats, labels: NDArray[np.int64]) -> Floats:
    """Sums over the samples, not means: parts of a batch can then simply be added. The loss is the
    last element behind the gradient."""
    hidden, logs = forward(weights, images)
    rows = np.arange(len(labels))
    sums = np.zeros(len(weights) + 1, np.float32)
    sums[-1] = -logs[rows, labels].sum()
    errors = np.exp(logs)
    errors[rows, labels] -= 1
    d_w1, d_b1, d_w2, d_b2 = layers(sums[:-1])
    d_w2[:] = hidden.T @ errors
    d_b2[:] = errors.sum(axis=0)
    back = (errors @ layers(weights)[2].T) * (1 - hidden**2)
    d_w1[:] = images.T @ back
    d_b1[:] = back.sum(axis=0)
    return sums


def train(
    images: Floats, labels: NDArray[np.int64], group: lycaon.Group | None
) -> tuple[list[float], Floats]:
    """Losses by step and final weights. Without a group, of one process alone."""
    weights = initial_weights()
    shuffle = np.random.default_rng(1)
    losses = []
    for _ in range(EPOCHS):
        order = shuffle.permutation(len(labels))
        for batch in np.split(order, range(BATCH, len(order), BATCH)):
            mine = batch if group is None else np.array_split(batch, group.size())[group.rank()]
            sums = loss_and_gradient(weights, images[mine], labels[mine])
            if group is not None:
                group.all_reduce(sums, in_place=True)
            sums /= len(batch)
            losses.append(float(sums[-1]))
            weights -= RATE * sums[:-1]
    return losses, weights


def plot(path: Path, size: int, together: list[float], alone: list[float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (curves, gap) = pyplot.subplots(
        2, 1, sharex=True, figsize=(8, 6), height_ratios=[3, 1], layout="constrained"
    )
    curves.plot(alone, color="tab:orange", linewidth=4, alpha=0.5, label="one process")
    curves.plot(together, color="tab:blue", linewidth=1, label=f"{size} ranks")
    curves.set_yscale("log")
    curves.set_ylabel("loss of the batch")
    curves.set_title("Handwritten digits: data-parallel training against one process")
    curves.legend()
    difference = np.abs(np.array(together) - np.array(alone))
    gap.semilogy(np.maximum(difference, 1e-9), color="tab:gray", linewidth=1)
    gap.axhline(TOLERANCE, color="tab:red", linestyle="--", linewidth=1, label="tolerance")
    gap.set_ylabel("difference")
    gap.set_xlabel("step")
    gap.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description="Data-parallel training on handwritten digits")
    parser.add_argument("--plot", type=Path, default=Path(__file__).with_name("digits.png"))
    arguments = parser.parse_args()

    pixels, digits = load_digits(return_X_y=True)
    images = (np.asarray(pixels) / 16).astype(np.float32)
    labels = np.asarray(digits).astype(np.int64)
    seen, held_back = slice(0, 1500), slice(1500, None)

    with lycaon.init() as group:
        together, weights = train(images[seen], labels[seen], group)
        # The result of all_reduce has the same bits on every rank, and so have the weights.
        everyone = group.all_gather(weights.reshape(1, -1))
        assert (everyone == weights).all(), "the ranks have different weights"
        rank, size = group.rank(), group.size()
    if rank != 0:
        return

    alone, reference = train(images[seen], labels[seen], None)
    loss_gap = float(np.abs(np.array(together) - np.array(alone)).max())
    weight_gap = float(np.abs(weights - reference).max())
    guesses = forward(weights, images[held_back])[1].argmax(axis=1)
    right = (guesses == labels[held_back]).mean()
    plot(arguments.plot, size, together, alone)

    print(f"{size} ranks, {len(together)} steps: loss {together[0]:.3f} -> {together[-1]:.4f}")
    print(f"right on {100 * right:.1f} % of {len(guesses)} digits it has not seen")
    print(f"largest difference to one process: loss {loss_gap:.1e}, weights {weight_gap:.1e}")
    assert loss_gap < TOLERANCE and weight_gap < TOLERANCE, "the runs differ"
    assert right > 0.85, "it has not learned"
    print(f"both runs agree within {TOLERANCE}; the curves are in {arguments.plot}")


if __name__ == "__main__":
    main()
