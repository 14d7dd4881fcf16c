#!/usr/bin/env python3
"""Writes layers.csv: results, gradients and second gradients of PyTorch's layers, for tests/nn/golden_test.cpp.

    pip install torch && python3 tests/golden/layers.py

Everything is float64. golden_case.py explains the table. The last inputs of a case are the layer's parameters, which the
argument `parameters` names.
"""
import functools
import pathlib

import torch
from torch import nn

import golden_case
from golden_case import Case, fixed

torch.set_default_dtype(torch.float64)


def layer_case(name, make, inputs, order=2, **arguments):
    """A case of a layer with random parameters, those of norms near 1."""
    parameters = dict(MAKE[make](arguments).named_parameters())

    def with_parameters(r):
        given = inputs(r)
        for key, p in parameters.items():
            offset = 1 if "norm" in key and key.endswith("weight") else 0
            given.append((offset + r.normal(*p.shape, scale=0.5)).requires_grad_())
        return given

    return Case(name, make, with_parameters, order, arguments | {"parameters": " ".join(parameters)})


def call(make, inputs_of, a, *inputs):
    """Calls the layer with the parameters that are its last inputs."""
    names = a["parameters"].split()
    first = len(inputs) - len(names)
    layer = MAKE[make](a)
    y = torch.func.functional_call(layer, dict(zip(names, inputs[first:])), inputs_of(a, *inputs[:first]))
    return flat(y)


def flat(y):
    """The tensors of nested tuples. Attention's weights are left out."""
    if isinstance(y, torch.Tensor):
        return [y]
    return [t for part in y if part is not None for t in flat(part)]


def recurrent(kind):
    return lambda a: kind(3, 2, num_layers=a.get("num_layers", 1), bias=a.get("bias", 1) == 1,
                          batch_first=a.get("batch_first", 0) == 1, bidirectional=a.get("bidirectional", 0) == 1)


def transformer(kind):
    return lambda a: kind(4, 2, 3, 0.0, a.get("activation", "relu"), batch_first=True,
                          norm_first=a.get("norm_first", 0) == 1)


MAKE = {
    "Embedding": lambda a: nn.Embedding(5, 2, padding_idx=a.get("padding_idx")),
    "RMSNorm": lambda a: nn.RMSNorm([4], eps=a.get("eps")),
    "InstanceNorm2d": lambda a: nn.InstanceNorm2d(2, affine=a.get("affine", 0) == 1),
    "PixelShuffle": lambda a: nn.PixelShuffle(2),
    "LSTM": recurrent(nn.LSTM),
    "GRU": recurrent(nn.GRU),
    "MultiheadAttention": lambda a: nn.MultiheadAttention(4, 2, batch_first=True),
    "TransformerEncoderLayer": transformer(nn.TransformerEncoderLayer),
    "TransformerDecoderLayer": transformer(nn.TransformerDecoderLayer),
}


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def lstm_arguments(a, x, *state):
    return (x, state) if state else (x,)


def attention_arguments(a, query, key, value, *masks):
    """The masks are those that `masks` names, in order. need_weights is False."""
    masks = dict(zip(a.get("masks", "").split(), masks))
    mask = causal(query.shape[1]) if a.get("causal", 0) else masks.get("attn_mask")
    return query, key, value, masks.get("key_padding_mask"), False, mask


def encoder_arguments(a, x, *padding):
    return x, causal(x.shape[1]) if a.get("causal", 0) else None, *padding


def decoder_arguments(a, x, memory, *padding):
    mask = causal(x.shape[1]) if a.get("causal", 0) else None
    return (x, memory, mask, None, None, *padding)


def plain(a, *inputs):
    return inputs


ARGUMENTS = {
    "LSTM": lstm_arguments,
    "MultiheadAttention": attention_arguments,
    "TransformerEncoderLayer": encoder_arguments,
    "TransformerDecoderLayer": decoder_arguments,
}

PADDING = (False, False, False, False, False, True)


def sequences(r):
    """3 steps of a batch of 2, or 3 batches of 2 steps."""
    return [r.leaf(3, 2, 3)]


def qkv(r):
    return [r.leaf(2, 2, 4), r.leaf(2, 3, 4), r.leaf(2, 3, 4)]


CASES = [
    layer_case("embedding", "Embedding", lambda r: [fixed(1, 4, 1, 0, 2, 2, shape=(2, 3))]),
    layer_case("embedding_padding", "Embedding", lambda r: [fixed(1, 4, 1, 0)], padding_idx=1),
    layer_case("embedding_padding_from_end", "Embedding", lambda r: [fixed(1, 4, 1, 4)], padding_idx=-1),
    layer_case("rms_norm", "RMSNorm", lambda r: [r.leaf(2, 3, 4)]),
    layer_case("rms_norm_eps", "RMSNorm", lambda r: [r.leaf(2, 4)], eps=0.01),
    layer_case("instance_norm", "InstanceNorm2d", lambda r: [r.leaf(2, 2, 2, 3)]),
    layer_case("instance_norm_affine", "InstanceNorm2d", lambda r: [r.leaf(2, 2, 2, 3)], affine=1),
    layer_case("pixel_shuffle", "PixelShuffle", lambda r: [r.leaf(2, 8, 1, 3)]),
    layer_case("lstm", "LSTM", lambda r: [r.leaf(3, 2, 3), r.leaf(1, 2, 2), r.leaf(1, 2, 2)]),
    layer_case("lstm_from_zeros", "LSTM", sequences, bias=0),
    layer_case("lstm_deep", "LSTM", sequences, order=1, num_layers=2, bidirectional=1, batch_first=1),
    layer_case("gru", "GRU", lambda r: [r.leaf(3, 2, 3), r.leaf(1, 2, 2)]),
    layer_case("gru_from_zeros", "GRU", sequences, bias=0),
    layer_case("gru_deep", "GRU", sequences, order=1, num_layers=2, bidirectional=1, batch_first=1),
    layer_case("attention", "MultiheadAttention", qkv),
    layer_case("attention_causal", "MultiheadAttention", lambda r: [r.leaf(1, 3, 4), r.leaf(1, 3, 4), r.leaf(1, 3, 4)],
               order=1, causal=1),
    layer_case("attention_padded", "MultiheadAttention", lambda r: [*qkv(r), fixed(*PADDING, shape=(2, 3))],
               order=1, masks="key_padding_mask"),
    layer_case("attention_mask", "MultiheadAttention", lambda r: [*qkv(r), r.normal(2, 3)],
               order=1, masks="attn_mask"),
    layer_case("encoder", "TransformerEncoderLayer", lambda r: [r.leaf(2, 2, 4)]),
    layer_case("encoder_padded", "TransformerEncoderLayer", lambda r: [r.leaf(2, 3, 4), fixed(*PADDING, shape=(2, 3))],
               order=1, activation="gelu", norm_first=1),
    layer_case("encoder_causal", "TransformerEncoderLayer", lambda r: [r.leaf(1, 3, 4)], order=1, causal=1),
    layer_case("decoder", "TransformerDecoderLayer", lambda r: [r.leaf(1, 2, 4), r.leaf(1, 3, 4)],
               order=1, causal=1),
    layer_case("decoder_padded", "TransformerDecoderLayer",
               lambda r: [r.leaf(2, 2, 4), r.leaf(2, 3, 4), fixed(*PADDING, shape=(2, 3))],
               order=1, activation="gelu", norm_first=1),
]


def main():
    ops = {make: functools.partial(call, make, ARGUMENTS.get(make, plain)) for make in MAKE}
    golden_case.write(pathlib.Path(__file__).with_suffix(".csv"), "layers.py", CASES, ops)


main()
