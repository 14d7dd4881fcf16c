#!/usr/bin/env python3
"""Writes losses.csv: what PyTorch's losses and their gradients are, for tests/autograd/ops/losses_golden_test.cpp, and the
gains of its initialisers, for tests/nn/init_test.cpp.

    pip install torch && python3 tests/golden/losses.py

Element i of the float64 input is 2 sin(1.7 i + 0.3), of the float target cos(0.9 i), of a weight 0.5 + 0.25 (i % 4), and
of target probabilities 0.1 + 0.2 (i % 5); class i is (2 i + 1) % 4, but -100 where i % 5 == 3. Shapes: (6, 4) and (6),
or for images (2, 4, 3, 2) and (2, 3, 2).

A line of the table: the configuration, "loss" or "grad" (of the sum of the losses), and the values to 17 digits.
"""
import pathlib

import torch
from torch.nn import functional as F


def values(f, *shape):
    i = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return f(i).reshape(shape)


def logits(*shape):
    return values(lambda i: 2 * torch.sin(1.7 * i + 0.3), *shape).requires_grad_()


def targets(*shape):
    return values(lambda i: torch.cos(0.9 * i), *shape)


def weights(*shape):
    return values(lambda i: 0.5 + 0.25 * (i % 4), *shape)


def probabilities(*shape):
    return values(lambda i: 0.1 + 0.2 * (i % 5), *shape)


def classes(*shape):
    return values(lambda i: torch.where(i % 5 == 3, -100, (2 * i + 1) % 4), *shape).long()


ROWS, IMAGES, PIXELS = (6, 4), (2, 4, 3, 2), (2, 3, 2)
W = weights(4)
LOSSES = {
    "cross_entropy": (ROWS, lambda x: F.cross_entropy(x, classes(6))),
    "cross_entropy_weighted": (ROWS, lambda x: F.cross_entropy(x, classes(6), W)),
    "cross_entropy_weighted_smoothed": (ROWS, lambda x: F.cross_entropy(x, classes(6), W, label_smoothing=0.2)),
    "cross_entropy_weighted_smoothed_none":
        (ROWS, lambda x: F.cross_entropy(x, classes(6), W, label_smoothing=0.2, reduction="none")),
    "cross_entropy_ignored": (ROWS, lambda x: F.cross_entropy(x, classes(6).clamp(min=0), W, ignore_index=1)),
    "cross_entropy_images": (IMAGES, lambda x: F.cross_entropy(x, classes(*PIXELS), W, label_smoothing=0.1)),
    "cross_entropy_images_none": (IMAGES, lambda x: F.cross_entropy(x, classes(*PIXELS), reduction="none")),
    "cross_entropy_single": ((4,), lambda x: F.cross_entropy(x, classes(1)[0], W)),
    "cross_entropy_soft": (ROWS, lambda x: F.cross_entropy(x, probabilities(*ROWS))),
    "cross_entropy_soft_weighted_smoothed":
        (ROWS, lambda x: F.cross_entropy(x, probabilities(*ROWS), W, label_smoothing=0.3)),
    "cross_entropy_soft_images_none":
        (IMAGES, lambda x: F.cross_entropy(x, probabilities(*IMAGES), W, reduction="none")),
    "cross_entropy_soft_single": ((4,), lambda x: F.cross_entropy(x, probabilities(4), W)),
    "nll_loss": (ROWS, lambda x: F.nll_loss(x, classes(6))),
    "nll_loss_weighted": (ROWS, lambda x: F.nll_loss(x, classes(6), W)),
    "nll_loss_images_sum": (IMAGES, lambda x: F.nll_loss(x, classes(*PIXELS), W, reduction="sum")),
    "mse_loss": (ROWS, lambda x: F.mse_loss(x, targets(*ROWS))),
    "l1_loss": (ROWS, lambda x: F.l1_loss(x, targets(*ROWS))),
    "huber_loss": (ROWS, lambda x: F.huber_loss(x, targets(*ROWS))),
    "huber_loss_delta_none": (ROWS, lambda x: F.huber_loss(x, targets(*ROWS), reduction="none", delta=0.7)),
    "bce": (ROWS, lambda x: F.binary_cross_entropy_with_logits(x, targets(*ROWS))),
    "bce_weighted":
        (ROWS, lambda x: F.binary_cross_entropy_with_logits(x, targets(*ROWS), weights(6, 1), pos_weight=W)),
}
GAINS = {
    "linear": torch.nn.init.calculate_gain("linear"),
    "sigmoid": torch.nn.init.calculate_gain("sigmoid"),
    "tanh": torch.nn.init.calculate_gain("tanh"),
    "relu": torch.nn.init.calculate_gain("relu"),
    "leaky_relu": torch.nn.init.calculate_gain("leaky_relu"),
    "leaky_relu_0.2": torch.nn.init.calculate_gain("leaky_relu", 0.2),
    "selu": torch.nn.init.calculate_gain("selu"),
}


def line(*cells, numbers):
    return ",".join([*cells] + [f"{v:.17g}" for v in numbers])


def main():
    lines = [f"# made by tests/golden/losses.py with torch {torch.__version__.split('+')[0]}"]
    for name, (shape, f) in LOSSES.items():
        x = logits(*shape)
        loss = f(x)
        loss.sum().backward()
        lines.append(line(name, "loss", numbers=loss.flatten().tolist()))
        lines.append(line(name, "grad", numbers=x.grad.flatten().tolist()))
    lines += [line("gain", name, numbers=[gain]) for name, gain in GAINS.items()]
    pathlib.Path(__file__).with_name("losses.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
