#!/usr/bin/env python3
"""Writes lr_scheduler.csv: what PyTorch's schedules make of two groups' rates, for tests/optim.

    pip install torch && python3 tests/golden/lr_scheduler.py

An optimizer with groups of lr 0.1 and 0.02 is stepped 100 times, each time followed by the schedule. A line of the table:
the configuration; "lr0" or "lr1" for a group's rate, or "momentum0" (Adam's betas[0]); and the 101 values, those before the
first step included, exactly. ReduceLROnPlateau sees the metric 1 / (1 + epoch // 7) + 0.01 (epoch % 3).
"""
import math
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler as lrs

STEPS = 100


def sequential(optimizer):
    parts = [
        lrs.LinearLR(optimizer, start_factor=0.1, total_iters=10),
        lrs.StepLR(optimizer, step_size=8, gamma=0.7),
        lrs.CosineAnnealingLR(optimizer, T_max=30, eta_min=1e-4),
    ]
    return lrs.SequentialLR(optimizer, parts, milestones=[10, 45])


CONFIGURATIONS = {
    "step": lambda o: lrs.StepLR(o, step_size=7, gamma=0.5),
    "step_defaults": lambda o: lrs.StepLR(o, step_size=30),
    "cosine": lambda o: lrs.CosineAnnealingLR(o, T_max=100),
    "cosine_waves": lambda o: lrs.CosineAnnealingLR(o, T_max=15, eta_min=0.001),
    "linear_defaults": lambda o: lrs.LinearLR(o),
    "linear": lambda o: lrs.LinearLR(o, start_factor=0.9, end_factor=0.05, total_iters=60),
    "lambda": lambda o: lrs.LambdaLR(o, lambda epoch: 0.95**epoch),
    "lambdas": lambda o: lrs.LambdaLR(o, [lambda epoch: 1 / (1 + epoch), lambda epoch: math.exp(-0.1 * epoch)]),
    "one_cycle": lambda o: lrs.OneCycleLR(o, max_lr=0.3, total_steps=100),
    "one_cycle_options": lambda o: lrs.OneCycleLR(
        o, max_lr=[0.3, 0.07], epochs=20, steps_per_epoch=5, pct_start=0.42, anneal_strategy="linear",
        base_momentum=0.8, max_momentum=0.9, div_factor=10, final_div_factor=50),
    "one_cycle_three_phase": lambda o: lrs.OneCycleLR(o, max_lr=0.3, total_steps=111, three_phase=True),
    "chained": lambda o: lrs.ChainedScheduler([
        lrs.LinearLR(o, start_factor=0.25, total_iters=20), lrs.StepLR(o, step_size=9, gamma=0.8)]),
    "chained_cosine": lambda o: lrs.ChainedScheduler([
        lrs.CosineAnnealingLR(o, T_max=101), lrs.StepLR(o, step_size=50)]),
    "sequential": sequential,
    "plateau": lambda o: lrs.ReduceLROnPlateau(o, factor=0.7, patience=2, cooldown=1, min_lr=[0.002, 1e-4]),
    "plateau_max": lambda o: lrs.ReduceLROnPlateau(
        o, mode="max", factor=0.5, patience=4, threshold=0.02, threshold_mode="abs", eps=1e-3),
}
ADAM = ("cosine", "one_cycle_three_phase")  # the others are SGD's


def metric(epoch):
    return 1 / (1 + epoch // 7) + 0.01 * (epoch % 3)


def momentum_of(group):
    return group["betas"][0] if "betas" in group else group["momentum"]


def rows(name, make):
    groups = [dict(params=[torch.nn.Parameter(torch.ones(1))], lr=lr) for lr in (0.1, 0.02)]
    optimizer = torch.optim.Adam(groups) if name in ADAM else torch.optim.SGD(groups, momentum=0.9)
    schedule = make(optimizer)
    values = {"lr0": [], "lr1": [], "momentum0": []}
    for epoch in range(STEPS + 1):
        values["lr0"].append(float(optimizer.param_groups[0]["lr"]))
        values["lr1"].append(float(optimizer.param_groups[1]["lr"]))
        values["momentum0"].append(float(momentum_of(optimizer.param_groups[0])))
        if epoch == STEPS:
            break
        optimizer.step()
        schedule.step(metric(epoch)) if name.startswith("plateau") else schedule.step()
    if not name.startswith("one_cycle"):
        del values["momentum0"]
    for what, list_of in values.items():
        yield ",".join([name, what] + [repr(v) for v in list_of])


def main():
    warnings.simplefilter("ignore", UserWarning)
    lines = [f"# made by tests/golden/lr_scheduler.py with torch {torch.__version__.split('+')[0]}"]
    lines.append(",".join(["configuration", "value"] + [str(i) for i in range(STEPS + 1)]))
    for name, make in CONFIGURATIONS.items():
        lines += rows(name, make)
    pathlib.Path(__file__).with_name("lr_scheduler.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
