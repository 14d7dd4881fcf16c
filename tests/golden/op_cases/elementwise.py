"""Elementwise ops: functions, rounding, bounds, logic, classes of numbers and masks."""
from math import inf, nan

import torch
from torch.nn import functional as F

from golden_case import case, fixed, leaf

UNARY = ("sin", "cos", "log1p", "expm1", "floor", "ceil", "round", "isnan", "isinf", "isfinite", "logical_not")
LOGIC = ("logical_and", "logical_or", "logical_xor")
OPS = {name: lambda a, x, f=getattr(torch, name): f(x) for name in UNARY}
OPS |= {name: lambda a, x, y, f=getattr(torch, name): f(x, y) for name in LOGIC}
OPS |= {
    "softplus": lambda a, x: F.softplus(x, a.get("beta", 1), a.get("threshold", 20)),
    "clamp": lambda a, x: torch.clamp(x, a.get("low"), a.get("high")),
    "masked_fill": lambda a, x, mask, *value: x.masked_fill(mask, value[0] if value else a["value"]),
    "masked_fill_": lambda a, x, mask, *value: x.clone().masked_fill_(mask, value[0] if value else a["value"]),
}

SPECIAL = (0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 1e-12, -1e-12, 1e6, -1e6, 1e300, inf, -inf, nan)
SMOOTH = ("sin", "cos", "expm1", "softplus")
ROUNDING = ("floor", "ceil", "round")
CLASSES = ("isnan", "isinf", "isfinite", "logical_not")


def everywhere(r):
    return [leaf(*SPECIAL)]


def masked(*mask_shape):
    return lambda r: [r.leaf(2, 3), r.normal(*mask_shape) > 0]


CASES = [case(name, name, lambda r: [r.leaf(2, 3)]) for name in SMOOTH]
CASES += [case(f"{name}_special", name, everywhere, order=1) for name in SMOOTH]
CASES += [
    case("log1p", "log1p", lambda r: [r.positive(2, 3).requires_grad_()]),
    case("log1p_special", "log1p", lambda r: [leaf(0.0, -0.0, 1e-12, -1e-12, -0.5, 1e300, -1.0, -2.0, inf, -inf, nan)],
         order=1),
    case("softplus_beta", "softplus", lambda r: [leaf(-3.0, -0.5, 0.0, 0.49, 0.51, 2.0)], beta=2.0, threshold=1.0),
    # PyTorch's second gradient is 0 at the threshold, although the function is not linear there.
    case("softplus_at_threshold", "softplus", lambda r: [leaf(0.5)], order=1, beta=2.0, threshold=1.0),
    case("softplus_negative_beta", "softplus", lambda r: [r.leaf(5)], beta=-0.5),
]
CASES += [case(name, name, everywhere) for name in ROUNDING]
CASES += [case(f"{name}_integers", name, lambda r: [fixed(-3, 0, 2)]) for name in ROUNDING]
CASES += [case(name, name, lambda r: [fixed(*SPECIAL)]) for name in CLASSES]
CASES += [case(f"{name}_integers", name, lambda r: [fixed(-3, 0, 2)]) for name in CLASSES]

LEFT, RIGHT = (0.0, -0.0, nan, 1.0, nan, 0.0), (nan, 0.0, nan, 2.0, 0.0, -3.0)
for op in LOGIC:
    CASES += [
        case(op, op, lambda r: [fixed(*LEFT), fixed(*RIGHT)]),
        case(f"{op}_bool", op, lambda r: [fixed(True, False, shape=(2, 1)), fixed(True, False)]),
        case(f"{op}_integers", op, lambda r: [fixed(0, 0, 2, -1), fixed(0, 3, 0, 4)]),
    ]

BOUNDED = (-2.0, -1.0, -0.5, -0.0, 0.0, 1.0, 1.5, inf, -inf, nan)
CASES += [
    case("clamp", "clamp", lambda r: [leaf(*BOUNDED)], low=-1.0, high=1.0),
    case("clamp_low", "clamp", lambda r: [leaf(*BOUNDED)], low=-0.5),
    case("clamp_high", "clamp", lambda r: [leaf(*BOUNDED)], high=1.0),
    case("clamp_equal_bounds", "clamp", lambda r: [leaf(*BOUNDED)], low=1.0, high=1.0),
    case("clamp_integers", "clamp", lambda r: [fixed(-3, 0, 2)], low=-1),
    case("clamp_empty", "clamp", lambda r: [r.leaf(0, 3)], low=0.0),
    case("masked_fill", "masked_fill", masked(2, 3), value=-1.5),
    case("masked_fill_infinity", "masked_fill", masked(2, 1), value=-inf),
    case("masked_fill_tensor", "masked_fill", lambda r: [r.leaf(2, 3), r.normal(3) > 0, r.leaf()]),
    case("masked_fill_in_place", "masked_fill_", masked(2, 3), value=0.25),
    case("masked_fill_tensor_in_place", "masked_fill_", lambda r: [r.leaf(2, 3), r.normal(2, 3) > 0, r.leaf()]),
    case("masked_fill_empty", "masked_fill", lambda r: [r.leaf(0, 3), torch.zeros(0, 3, dtype=torch.bool)], value=2.0),
]
