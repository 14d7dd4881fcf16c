#!/usr/bin/env python3
"""Carries the weights of examples/cifar10's networks to PyTorch and back, and compares what both make of the same images.

    tests/pytorch/exchange.py build/release/tests/pytorch/cifar10_logits

Trained here (on noise), the weights go through a safetensors file into modules of the same names in PyTorch; trained on there, they
come back the same way. Prints the largest difference between the logits of the two, which must be at most 1e-5, and exits with 77
where PyTorch or safetensors is missing.
"""

import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file, save_file
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOLERANCE = 1e-5


def conv(n_in, n_out, kernel=3, stride=1):
    return nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(n_in, n_out, 3, stride), nn.BatchNorm2d(n_out)
        self.conv2, self.bn2 = conv(n_out, n_out), nn.BatchNorm2d(n_out)
        self.shortcut = nn.Sequential()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(conv(n_in, n_out, 1, stride), nn.BatchNorm2d(n_out))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class Pool(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def named(head, body, features):
    """Modules by name, those of `body` by their place, as a C++ Sequential names them."""
    net = nn.Sequential()
    for name, module in head:
        net.add_module(name, module)
    for module in body:
        net.add_module(str(len(net)), module)
    net.add_module("pool", Pool())
    net.add_module("fc", nn.Linear(features, 10))
    return net


def resnet18():
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [BasicBlock(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:])]
    return named([("conv1", conv(3, 64)), ("bn1", nn.BatchNorm2d(64)), ("relu", nn.ReLU())], blocks, 512)


def small():
    body = []
    for n_in, n_out, pooled in [(3, 32, 1), (32, 64, 0), (64, 64, 1), (64, 128, 0), (128, 128, 1), (128, 256, 0)]:
        body += [conv(n_in, n_out), nn.BatchNorm2d(n_out), nn.ReLU()] + [nn.MaxPool2d(2)] * pooled
    return named([], body, 256)


def train_on_noise(net):
    net.train()
    sgd = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    for _ in range(8):
        sgd.zero_grad()
        nn.functional.cross_entropy(net(torch.randn(16, 3, 32, 32)), torch.randint(0, 10, (16,))).backward()
        sgd.step()


def compare(model, way, ours, theirs):
    difference, largest = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    print(f"{model:9} {way:11} largest difference {difference:.2e}, largest logit {largest:.3g}")
    return difference <= TOLERANCE


def exchange(program, model, net, folder):
    weights, images, logits = (str(folder / f"{model}_{name}.safetensors") for name in ("weights", "images", "logits"))

    subprocess.run([program, model, weights, logits], check=True)
    net.load_state_dict(load_file(weights))  # strict: every name, every shape
    net.eval()
    ours = load_file(logits)
    with torch.no_grad():
        to_pytorch = compare(model, "to PyTorch", ours["logits"], net(ours["images"]))

    train_on_noise(net)
    net.eval()
    save_file(net.state_dict(), weights)
    x = torch.randn(32, 3, 32, 32)
    save_file({"images": x}, images)
    subprocess.run([program, model, weights, logits, images], check=True)
    with torch.no_grad():
        back = compare(model, "and back", load_file(logits)["logits"], net(x))
    return to_pytorch and back


def main():
    torch.manual_seed(0)
    print(f"PyTorch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        same = [
            exchange(sys.argv[1], model, net(), pathlib.Path(folder))
            for model, net in (("resnet18", resnet18), ("small", small))
        ]
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
