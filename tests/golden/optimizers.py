#!/usr/bin/env python3
"""Writes optimizers.csv: what PyTorch's optimizers make of one small problem, for tests/optim.

    pip install torch && python3 tests/golden/optimizers.py

A parameter x of 7 float64 elements starts at x[i] = 1 - 0.3 i and is moved 100 times by the gradient

    g = A x - b + sin(x),   A[i][j] = 1 / (1 + i + j) + (i == j),   b[i] = 0.5 - 0.1 i.

A line of the table: the configuration, the number of steps taken, and x to 17 digits.
"""
import pathlib

import torch

N = 7
INDEX = torch.arange(N, dtype=torch.float64)
A = 1 / (1 + INDEX[:, None] + INDEX[None, :]) + torch.eye(N, dtype=torch.float64)
B = 0.5 - 0.1 * INDEX

CONFIGURATIONS = {
    "sgd": (torch.optim.SGD, dict(lr=0.01)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.01, momentum=0.9)),
    "sgd_nesterov_decay": (torch.optim.SGD, dict(lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.05)),
    "sgd_dampening": (torch.optim.SGD, dict(lr=0.02, momentum=0.8, dampening=0.3)),
    "adam": (torch.optim.Adam, dict(lr=0.02)),
    "adam_decay": (torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.05)),
    "adamw": (torch.optim.AdamW, dict(lr=0.02)),
    "adamw_decay": (torch.optim.AdamW, dict(lr=0.02, weight_decay=0.1)),
}
STEPS = (1, 10, 100)


def rows(name, make, options):
    x = torch.nn.Parameter(1 - 0.3 * INDEX)
    optimizer = make([x], **options)
    for step in range(1, max(STEPS) + 1):
        with torch.no_grad():
            x.grad = A @ x - B + torch.sin(x)
        optimizer.step()
        if step in STEPS:
            yield ",".join([name, str(step)] + [f"{v:.17g}" for v in x.tolist()])


def main():
    lines = [f"# made by tests/golden/optimizers.py with torch {torch.__version__.split('+')[0]}"]
    lines.append(",".join(["configuration", "step"] + [f"x{i}" for i in range(N)]))
    for name, (make, options) in CONFIGURATIONS.items():
        lines += rows(name, make, options)
    pathlib.Path(__file__).with_name("optimizers.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
