#!/usr/bin/env python3
"""Writes transformer.csv: results and gradients of PyTorch's attention and transformer layers, for
tests/nn/transformer_test.cpp.

    pip install torch && python3 tests/golden/transformer.py

Layers have 6 features and 2 heads, and no dropout. Everything is float64. Element i of a parameter is
0.6 sin(1.3 i + 0.7 n), and 1 more in the weight of a norm, where n is the length of the parameter's name. Element i of
the input (2, 4, 6) is sin(0.7 i + 0.1), and of the other input (2, 3, 6), cos(0.4 i). A padding mask excludes the last
key of batch 1. A float mask (4, 4) has 0.3 i - 1.

A line of the table: the configuration, "y", "gx" (the gradient of the input) or "gw" (of the first parameter), each of
the sum of y times cos(1.1 i), and the values to 17 digits.
"""
import pathlib

import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def values(f, *shape):
    return f(torch.arange(torch.Size(shape).numel(), dtype=torch.float64)).reshape(shape)


def filled(layer):
    for name, p in layer.named_parameters():
        offset = 1 if "norm" in name and name.endswith("weight") else 0
        p.data = values(lambda i: offset + 0.6 * torch.sin(1.3 * i + 0.7 * len(name)), *p.shape)
    return layer


X = values(lambda i: torch.sin(0.7 * i + 0.1), 2, 4, 6)
OTHER = values(lambda i: torch.cos(0.4 * i), 2, 3, 6)
PADDING = torch.tensor([[False] * 4, [False] * 3 + [True]])
FLOATS = values(lambda i: 0.3 * i - 1, 4, 4)
CAUSAL = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)


def attention(**options):
    layer = nn.MultiheadAttention(6, 2, batch_first=True, bias=options.pop("bias", True))

    def call(layer, x):
        return layer(x, options.get("key", x), options.get("key", x), key_padding_mask=options.get("padding"),
                     attn_mask=options.get("mask"), need_weights=False)[0]
    return layer, call


def encoder(activation, norm_first, **masks):
    layer = nn.TransformerEncoderLayer(6, 2, 8, 0, activation, batch_first=True, norm_first=norm_first)
    return layer, lambda layer, x: layer(x, **masks)


def decoder(norm_first):
    layer = nn.TransformerDecoderLayer(6, 2, 8, 0, batch_first=True, norm_first=norm_first)
    return layer, lambda layer, x: layer(x, OTHER, tgt_mask=CAUSAL)


CONFIGURATIONS = {
    "attention": attention(),
    "attention_without_bias": attention(bias=False),
    "attention_causal": attention(mask=CAUSAL),
    "attention_padded": attention(padding=PADDING),
    "attention_causal_padded": attention(mask=CAUSAL, padding=PADDING),
    "attention_float": attention(mask=FLOATS),
    "attention_to_other": attention(key=OTHER),
    "encoder": encoder("relu", False),
    "encoder_padded": encoder("gelu", False, src_key_padding_mask=PADDING),
    "encoder_norm_first": encoder("gelu", True, src_mask=CAUSAL),
    "decoder": decoder(False),
    "decoder_norm_first": decoder(True),
}


def main():
    lines = [f"# made by tests/golden/transformer.py with torch {torch.__version__}"]
    for name, (layer, call) in CONFIGURATIONS.items():
        x = X.clone().requires_grad_()
        y = call(filled(layer).train(), x)
        (y * values(lambda i: torch.cos(1.1 * i), *y.shape)).sum().backward()
        results = {"y": y, "gx": x.grad, "gw": next(layer.parameters()).grad}
        for what, t in results.items():
            lines.append(",".join([name, what] + [f"{v:.17g}" for v in t.detach().flatten().tolist()]))
    pathlib.Path(__file__).with_suffix(".csv").write_text("\n".join(lines) + "\n")


main()
