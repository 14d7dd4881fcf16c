"""Losses. losses.py has more configurations of cross_entropy, without second gradients."""
from math import inf

import torch
from torch.nn import functional as F

from golden_case import case, fixed, leaf


def cross_entropy(a, x, target, *weight):
    return F.cross_entropy(x, target, *weight, reduction=a.get("reduction", "mean"),
                           ignore_index=a.get("ignore_index", -100), label_smoothing=a.get("label_smoothing", 0.0))


def linear_cross_entropy(a, x, weight, target):
    return cross_entropy(a, F.linear(x, weight).flatten(0, -2), target.flatten())


def kl_div(a, x, target):
    return F.kl_div(x, target, reduction=a["reduction"], log_target=bool(a.get("log_target", 0)))


OPS = {"kl_div": kl_div, "cross_entropy": cross_entropy, "linear_cross_entropy": linear_cross_entropy}

CASES = []
for reduction in ("none", "batchmean", "mean", "sum"):
    CASES += [
        case(f"kl_div_{reduction}", "kl_div", lambda r: [r.leaf(2, 3), r.positive(2, 3).requires_grad_()],
             reduction=reduction),
        case(f"kl_div_log_{reduction}", "kl_div", lambda r: [r.leaf(2, 3), r.leaf(2, 3)], reduction=reduction,
             log_target=1),
    ]
CASES += [
    case("kl_div_zero_target", "kl_div", lambda r: [r.leaf(4), fixed(0.0, 0.5, 0.0, 0.5)], reduction="sum"),
    case("kl_div_negative_target", "kl_div", lambda r: [r.leaf(2), fixed(-0.5, 1.5)], reduction="none"),
    case("kl_div_log_infinite", "kl_div", lambda r: [leaf(-1.0, -2.0), fixed(-inf, 0.0)], order=1, reduction="none",
         log_target=1),
    case("kl_div_empty", "kl_div", lambda r: [r.leaf(0, 3), torch.zeros(0, 3).double()], reduction="sum"),
]


def classified(*target, shape=(-1,)):
    """Logits of 3 classes."""
    def inputs(r):
        t = fixed(*target, shape=shape)
        return [r.leaf(t.shape[0], 3, *t.shape[1:]), t]
    return inputs


def weighted(*target):
    return lambda r: [*classified(*target)(r), r.positive(3)]


CASES += [
    case("cross_entropy", "cross_entropy", classified(2, 0, 1, 1)),
    case("cross_entropy_sum", "cross_entropy", classified(2, 0), reduction="sum"),
    case("cross_entropy_none", "cross_entropy", classified(2, -100, 1), reduction="none"),
    case("cross_entropy_ignored", "cross_entropy", classified(2, 1, 0, 1), ignore_index=1),
    case("cross_entropy_smoothed", "cross_entropy", classified(2, 0, -100), label_smoothing=0.2),
    case("cross_entropy_weighted", "cross_entropy", weighted(2, 0, 1), label_smoothing=0.1),
    case("cross_entropy_images", "cross_entropy", classified(2, 0, 1, -100, shape=(2, 2, 1)), label_smoothing=0.1),
    case("cross_entropy_large", "cross_entropy", lambda r: [leaf(1000.0, -1000.0, 0.0, shape=(1, 3)), fixed(1)]),
    case("cross_entropy_all_ignored", "cross_entropy", classified(1, 1), ignore_index=1, order=1),
    case("cross_entropy_all_ignored_sum", "cross_entropy", classified(1, 1), ignore_index=1, reduction="sum"),
    case("cross_entropy_probabilities", "cross_entropy", lambda r: [r.leaf(2, 3), r.positive(2, 3)],
         label_smoothing=0.3),
    case("cross_entropy_probabilities_grad", "cross_entropy",
         lambda r: [r.leaf(2, 3), r.positive(2, 3).requires_grad_()]),
]


def projected(*target, shape=(-1,)):
    """Features (..., 2), the weight of 4 classes, and the classes."""
    return lambda r: [r.leaf(*fixed(*target, shape=shape).shape, 2), r.leaf(4, 2), fixed(*target, shape=shape)]


CASES += [
    case("linear_cross_entropy", "linear_cross_entropy", projected(3, 0, 1)),
    case("linear_cross_entropy_chunks", "linear_cross_entropy", projected(3, 0, 1, 1, 2), chunks=2),
    case("linear_cross_entropy_sum", "linear_cross_entropy", projected(3, 0, 1), reduction="sum", chunks=3),
    case("linear_cross_entropy_ignored", "linear_cross_entropy", projected(3, 2, 1, 2), ignore_index=2),
    case("linear_cross_entropy_sequences", "linear_cross_entropy", projected(3, -100, 1, 0, shape=(2, 2))),
    case("linear_cross_entropy_all_ignored", "linear_cross_entropy", projected(2, 2), ignore_index=2, order=1),
]
