#!/usr/bin/env python3
"""Writes optimizers.csv: what PyTorch's optimizers make of one small problem, for tests/optim.

    pip install torch && python3 tests/golden/optimizers.py

A parameter x of 7 float64 elements starts at x[i] = 1 - 0.3 i and is moved 100 times by the gradient

    g = A x - b + sin(x),   A[i][j] = 1 / (1 + i + j) + (i == j),   b[i] = 0.5 - 0.1 i.

A line of the table: the configuration, the number of steps taken, and x to 17 digits, or in its place the moving average.
Where there are two groups, the first has 3 elements.
"""
import pathlib

import torch
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

N = 7
INDEX = torch.arange(N, dtype=torch.float64)
A = 1 / (1 + INDEX[:, None] + INDEX[None, :]) + torch.eye(N, dtype=torch.float64)
B = 0.5 - 0.1 * INDEX

CONFIGURATIONS = {
    "sgd": dict(make=torch.optim.SGD, lr=0.01),
    "sgd_momentum": dict(make=torch.optim.SGD, lr=0.01, momentum=0.9),
    "sgd_nesterov_decay": dict(make=torch.optim.SGD, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.05),
    "sgd_dampening": dict(make=torch.optim.SGD, lr=0.02, momentum=0.8, dampening=0.3),
    "sgd_groups": dict(make=torch.optim.SGD, groups=[dict(lr=0.02, weight_decay=0.1), dict(momentum=0, dampening=0)],
                       lr=0.01, momentum=0.9, dampening=0.2),
    "sgd_one_cycle": dict(make=torch.optim.SGD, lr=0.01, momentum=0.9,
                          schedule=lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.05, total_steps=100)),
    "sgd_clip_value": dict(make=torch.optim.SGD, lr=0.02, momentum=0.9, clip_value=0.25),
    "sgd_ema": dict(make=torch.optim.SGD, lr=0.02, momentum=0.9, ema=0.95),
    "adam": dict(make=torch.optim.Adam, lr=0.02),
    "adam_decay": dict(make=torch.optim.Adam, lr=0.02, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.05),
    "adam_one_cycle": dict(make=torch.optim.Adam, lr=0.01,
                           schedule=lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.05, total_steps=100)),
    "adamw": dict(make=torch.optim.AdamW, lr=0.02),
    "adamw_decay": dict(make=torch.optim.AdamW, lr=0.02, weight_decay=0.1),
    "adamw_groups": dict(make=torch.optim.AdamW, groups=[dict(weight_decay=0), dict(lr=0.005, betas=(0.7, 0.9), eps=1e-4)],
                         lr=0.02, weight_decay=0.1),
    "rmsprop": dict(make=torch.optim.RMSprop, lr=0.01),
    "rmsprop_momentum": dict(make=torch.optim.RMSprop, lr=0.005, alpha=0.9, eps=1e-6, weight_decay=0.05, momentum=0.9),
    "rmsprop_centered": dict(make=torch.optim.RMSprop, lr=0.002, centered=True),
    "rmsprop_groups": dict(make=torch.optim.RMSprop, groups=[dict(alpha=0.95, momentum=0), dict(lr=0.003, centered=False)],
                           lr=0.002, momentum=0.8, centered=True, weight_decay=0.01),
    "rmsprop_one_cycle": dict(make=torch.optim.RMSprop, lr=0.01, momentum=0.9,
                              schedule=lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.005, total_steps=100)),
}
STEPS = (1, 10, 100)


def rows(name, make, groups=None, schedule=None, clip_value=None, ema=None, **options):
    start = 1 - 0.3 * INDEX
    parts = start.split([3, N - 3]) if groups else [start]
    model = torch.nn.ParameterList([torch.nn.Parameter(p.clone()) for p in parts])
    optimizer = make([dict(params=[p], **g) for p, g in zip(model, groups or [{}])], **options)
    scheduler = schedule(optimizer) if schedule else None
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(ema)) if ema else None
    for step in range(1, max(STEPS) + 1):
        with torch.no_grad():
            x = torch.cat(list(model))
            gradient = A @ x - B + torch.sin(x)
            for p, g in zip(model, gradient.split([len(p) for p in model])):
                p.grad = g.clone()
        if clip_value:
            torch.nn.utils.clip_grad_value_(model, clip_value)
        optimizer.step()
        if scheduler:
            scheduler.step()
        if average:
            average.update_parameters(model)
        if step in STEPS:
            x = torch.cat(list(average.module if average else model))
            yield ",".join([name, str(step)] + [f"{v:.17g}" for v in x.tolist()])


def main():
    lines = [f"# made by tests/golden/optimizers.py with torch {torch.__version__.split('+')[0]}"]
    lines.append(",".join(["configuration", "step"] + [f"x{i}" for i in range(N)]))
    for name, configuration in CONFIGURATIONS.items():
        lines += rows(name, **configuration)
    pathlib.Path(__file__).with_name("optimizers.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
