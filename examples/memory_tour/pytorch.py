#!/usr/bin/env python3
"""Runs the programs of the tour in PyTorch on a GPU, and prints its allocated bytes at the same readings.

usage: examples/memory_tour/pytorch.py > pytorch.jsonl, then memory_tour --device cuda --pytorch pytorch.jsonl

The first line is {"pytorch", "device"}. Then each program has a line {"stop", "part", "allocated": [bytes by reading]}.
Stops and parts count from 1. A reading that PyTorch does not have is null. Each program starts with no memory held, an
empty cache and no cuBLAS workspace. The bytes include the workspaces of cuBLAS and cuDNN.
"""

import gc
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.checkpoint import checkpoint

DEVICE = "cuda"


class Watch:
    def __init__(self):
        self.readings = []

    def __call__(self):
        self.readings.append(torch.cuda.memory_allocated())

    def nothing(self):
        self.readings.append(None)


def batch(*shape):
    return torch.randn(*shape, device=DEVICE)


def weight(*shape):
    return torch.randn(*shape, device=DEVICE, requires_grad=True)


def one_tensor(at):
    at()
    x = torch.randn(1024, device=DEVICE)
    at()
    del x
    at()
    torch.cuda.empty_cache()
    at()


def some_sizes(at):
    for n in (0, 1, 128, 129, 256, 800, 1024, 1025):
        x = torch.empty(n, device=DEVICE)
        at()
        del x


def dtypes(at):
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8,
                  torch.bool):
        x = torch.zeros(1024, dtype=dtype, device=DEVICE)
        at()
        del x


def linear(at):
    def program():
        net = nn.Linear(256, 250, device=DEVICE)
        at()
        x = batch(1, 256)
        at()
        y = net(x)
        at()
        y.sum().backward()
        at()

    program()
    at()


def saved(at):
    x = batch(64, 64)
    u, v, w = weight(64, 64), weight(64, 64), weight(64, 64)
    y = x @ w
    at()
    y = x + w
    at()
    y = (x * 2) @ w
    at()
    y = ((x + 2) @ v + 3) * u
    at()


def sequential(at):
    net = nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 200), nn.Sigmoid()).to(DEVICE)
    x = batch(5, 200)
    at()
    with torch.no_grad():
        y = net(x)
        at()
        del y
    y = net(x)
    at()
    y.sum().backward()
    at()


def layer_norm(at):
    x, w = batch(10), weight(10)
    y = (x - x.mean()) / (x.var() + 1e-5).sqrt() * w
    at()
    del y
    at()
    y = F.layer_norm(x, [10], w)
    at()


def three_steps(make_optimizer):
    def program(at):
        net = nn.Linear(256, 250, device=DEVICE)
        optimizer = make_optimizer(net.parameters())
        x = batch(100, 256)
        for _ in range(3):
            optimizer.zero_grad()
            at()
            y = net(x)
            at()
            y.sum().backward()
            at()
            del y
            optimizer.step()
            at()

    return program


def convolution(at):
    conv = nn.Conv2d(32, 32, 3, padding=1, device=DEVICE)
    x = batch(8, 32, 32, 32)
    at()
    y = conv(x)
    at()
    y.sum().backward()
    at()


def recurrent(at):
    def cells(steps):
        into, hidden = nn.Linear(32, 64, device=DEVICE), nn.Linear(64, 64, device=DEVICE)
        x = batch(steps, 16, 32)
        h = torch.zeros(16, 64, device=DEVICE)
        for t in range(steps):
            h = torch.tanh(into(x[t]) + hidden(h))
        at()

    for steps in (8, 16, 32, 64):
        cells(steps)


def attention(at):
    def heads(tokens):
        q, k, v = weight(tokens, 64), weight(tokens, 64), weight(tokens, 64)
        y = torch.softmax(q @ k.T / 8, 1) @ v  # held at the reading
        at()
        return y

    for tokens in (64, 128, 256, 512):
        heads(tokens)


def batch_norm(at):
    first, second = nn.Conv2d(16, 16, 1, device=DEVICE), nn.Conv2d(16, 16, 1, device=DEVICE)
    norm = nn.BatchNorm2d(16, device=DEVICE)
    x = first(batch(16, 16, 32, 32))
    at()
    y = second(torch.relu(norm(x)))  # held at the reading
    at()
    at.nothing()
    at.nothing()
    del y


def six_blocks():
    return [nn.Sequential(nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU()).to(DEVICE) for _ in range(6)]


def run_blocks(at, run, has_backward=True):
    blocks = six_blocks()
    h = batch(1024, 128)
    for block in blocks:
        h = run(block, h)
    at()
    if has_backward:
        h.sum().backward()
        at()


def kept(at):
    run_blocks(at, lambda block, h: block(h))


def checkpointed(at):
    run_blocks(at, lambda block, h: checkpoint(block, h, use_reentrant=False))


def four_layers():
    return nn.Sequential(*(nn.Linear(512, 512) for _ in range(4))).to(DEVICE)


def at_once(at):
    net = four_layers()
    sgd = optim.SGD(net.parameters(), lr=0.01)
    loss = net(batch(32, 512)).sum()
    at()
    loss.backward()
    at()
    sgd.step()
    at()


def one_by_one(at):
    net = four_layers()
    optimizers = {p: optim.SGD([p], lr=0.01) for p in net.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    hooks = [p.register_post_accumulate_grad_hook(step) for p in net.parameters()]
    loss = net(batch(32, 512)).sum()
    at()
    loss.backward()
    at()
    for hook in hooks:  # a hook's function holds its parameter in a cycle that the garbage collector does not see
        hook.remove()


def in_f32(at):
    run_blocks(at, lambda block, h: block(h), has_backward=False)


def in_bf16(at):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.to(torch.bfloat16), lambda x: x.float()):
        run_blocks(at, lambda block, h: block(h), has_backward=False)


# (stop, part, program)
PROGRAMS = (
    (1, 1, one_tensor),
    (2, 1, some_sizes),
    (3, 1, dtypes),
    (4, 1, linear),
    (5, 1, saved),
    (6, 1, sequential),
    (7, 1, layer_norm),
    (8, 1, three_steps(lambda p: optim.SGD(p, lr=0.01))),
    (8, 2, three_steps(lambda p: optim.SGD(p, lr=0.01, momentum=0.9))),
    (8, 3, three_steps(optim.Adam)),
    (9, 1, convolution),
    (10, 1, recurrent),
    (11, 1, attention),
    (12, 1, batch_norm),
    (13, 1, kept),
    (13, 2, checkpointed),
    (14, 1, at_once),
    (14, 2, one_by_one),
    (15, 1, in_f32),
    (15, 2, in_bf16),
)


def readings_of(program):
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    if torch.cuda.memory_allocated():
        sys.exit(f"pytorch.py: {torch.cuda.memory_allocated()} bytes are allocated before {program.__name__}, expected 0")
    at = Watch()
    program(at)
    return at.readings


def main():
    if not torch.cuda.is_available():
        sys.exit("pytorch.py: needs a GPU, but PyTorch finds none")
    print(json.dumps({"pytorch": torch.__version__, "device": torch.cuda.get_device_name()}))
    for stop, part, program in PROGRAMS:
        print(json.dumps({"stop": stop, "part": part, "allocated": readings_of(program)}))


if __name__ == "__main__":
    main()
