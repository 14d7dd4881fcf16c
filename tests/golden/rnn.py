#!/usr/bin/env python3
"""Writes rnn.csv: results and gradients of PyTorch's LSTM and GRU, for tests/nn/rnn_test.cpp.

    pip install torch && python3 tests/golden/rnn.py

Layers have 3 inputs and 4 hidden features. Everything is float64. Element i of a parameter is 0.6 sin(1.3 i + 0.7 n),
where n is the length of the parameter's name. Element i of the input is sin(0.7 i + 0.1). It is (5, 2, 3): 5 steps of a
batch of 2, or 5 batches of 2 steps with batch_first. Element i of an initial state is cos(0.4 i + s), where s is 0 for
the hidden state and 1 for the cell state.

A line of the table: the configuration, what it is, and the values to 17 digits. "y" is the output, "h" and "c" are the
last states. "gx" is the gradient of the input, "gh" that of the initial hidden state, and "gw" that of the first
parameter and of the last one, each of the sum of all results, where element i counts cos(1.1 i) times.
"""
import pathlib

import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def values(f, *shape):
    return f(torch.arange(torch.Size(shape).numel(), dtype=torch.float64)).reshape(shape)


CONFIGURATIONS = {
    "lstm": dict(make=nn.LSTM),
    "lstm_state": dict(make=nn.LSTM, state=True),
    "lstm_deep": dict(make=nn.LSTM, state=True, num_layers=2, bidirectional=True, batch_first=True),
    "lstm_without_bias": dict(make=nn.LSTM, bias=False, bidirectional=True),
    "gru": dict(make=nn.GRU),
    "gru_state": dict(make=nn.GRU, state=True),
    "gru_deep": dict(make=nn.GRU, state=True, num_layers=2, bidirectional=True, batch_first=True),
    "gru_without_bias": dict(make=nn.GRU, bias=False, bidirectional=True),
}


def results(make, state=False, **options):
    layer = make(3, 4, **options)
    for name, p in layer.named_parameters():
        p.data = values(lambda i: 0.6 * torch.sin(1.3 * i + 0.7 * len(name)), *p.shape)
    x = values(lambda i: torch.sin(0.7 * i + 0.1), 5, 2, 3).requires_grad_()
    cells = layer.num_layers * (2 if layer.bidirectional else 1)
    n = 5 if layer.batch_first else 2
    initial = [values(lambda i: torch.cos(0.4 * i + s), cells, n, 4).requires_grad_() for s in range(2)]
    if make is nn.LSTM:
        y, (h, c) = layer(x, tuple(initial) if state else None)
        found = {"y": y, "h": h, "c": c}
    else:
        y, h = layer(x, initial[0] if state else None)
        found = {"y": y, "h": h}
    sum((t * values(lambda i: torch.cos(1.1 * i), *t.shape)).sum() for t in found.values()).backward()
    found["gx"] = x.grad
    if state:
        found["gh"] = initial[0].grad
    parameters = list(layer.parameters())
    found["gw"] = torch.cat([parameters[0].grad.flatten(), parameters[-1].grad.flatten()])
    return found


def main():
    lines = [f"# made by tests/golden/rnn.py with torch {torch.__version__.split('+')[0]}"]
    for name, configuration in CONFIGURATIONS.items():
        for what, t in results(**configuration).items():
            lines.append(",".join([name, what] + [f"{v:.17g}" for v in t.detach().flatten().tolist()]))
    pathlib.Path(__file__).with_suffix(".csv").write_text("\n".join(lines) + "\n")


main()
