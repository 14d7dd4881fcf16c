#!/usr/bin/env python3
"""Writes muon.csv: what PyTorch's Muon, computed in float64, makes of a small problem, for tests/optim/muon_test.cpp.

    pip install torch && python3 tests/golden/muon.py

Element k (row-major) of each parameter starts at x[k] = cos(1 + 3 k) and is moved 100 times by the gradient

    g[k] = sin(x[k] + k) / 3 + (2 if k is on the diagonal).

The diagonal keeps the singular values of gradients away from 0, where orthogonalization would amplify rounding.

PyTorch orthogonalizes in bfloat16. Here the same code, without that conversion, does it in float64.
A line of the table: the configuration, the number of steps taken, and all elements of all parameters to 17 digits.
"""
import inspect
import pathlib

import torch
import torch.optim._muon as muon

SHAPES = {"two": [(4, 3), (3, 5)], "equal": [(3, 5), (4, 4), (3, 5), (6, 2)]}
CONFIGURATIONS = {
    "muon": dict(shapes="two"),
    "muon_plain": dict(shapes="two", lr=0.02, momentum=0.8, nesterov=False, weight_decay=0),
    "muon_match_rms": dict(shapes="two", lr=0.01, adjust_lr_fn="match_rms_adamw"),
    "muon_steps": dict(shapes="equal", lr=0.05, ns_steps=3, ns_coefficients=(3, -3.2, 1.2), eps=1e-3),
    "muon_groups": dict(shapes="equal", lr=0.02, groups=[dict(lr=0.05), dict(ns_steps=2), dict(momentum=0.5),
                                                         dict(weight_decay=0.3, nesterov=False)]),
}
STEPS = (1, 10, 100)


def use_float64():
    source = inspect.getsource(muon._zeropower_via_newtonschulz)
    assert source.count(".bfloat16()") == 1
    exec(source.replace(".bfloat16()", ".clone()"), muon.__dict__)


def gradient(x):
    k = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape)
    return torch.sin(x + k) / 3 + 2 * torch.eye(*x.shape, dtype=torch.float64)


def rows(name, shapes, groups=None, **options):
    parameters = []
    for shape in SHAPES[shapes]:
        size = shape[0] * shape[1]
        start = torch.cos(1 + 3 * torch.arange(size, dtype=torch.float64)).reshape(shape)
        parameters.append(torch.nn.Parameter(start))
    optimizer = muon.Muon([dict(params=[p], **g) for p, g in zip(parameters, groups or [{}] * len(parameters))], **options)
    for step in range(1, max(STEPS) + 1):
        for p in parameters:
            p.grad = gradient(p.detach())
        optimizer.step()
        if step in STEPS:
            values = torch.cat([p.detach().flatten() for p in parameters])
            yield ",".join([name, str(step)] + [f"{v:.17g}" for v in values.tolist()])


def main():
    use_float64()
    lines = [f"# made by tests/golden/muon.py with torch {torch.__version__.split('+')[0]}", "configuration,step,values..."]
    for name, configuration in CONFIGURATIONS.items():
        lines += rows(name, **configuration)
    pathlib.Path(__file__).with_name("muon.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
