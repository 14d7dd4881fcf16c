"""Reductions and cumulative sums."""
from math import inf, nan

import torch

from golden_case import case, fixed, leaf


def dims_of(a, x):
    return tuple(a.get("dims", range(x.dim())))


def truth(name):
    return lambda a, x: getattr(torch, name)(x, dims_of(a, x), bool(a.get("keepdim", 0)))


def prod(a, x):
    """torch.prod reduces one dim at a time."""
    for d in sorted((d % x.dim() for d in dims_of(a, x)), reverse=True):
        x = torch.prod(x, d, bool(a.get("keepdim", 0)))
    return x


OPS = {
    "logsumexp": lambda a, x: torch.logsumexp(x, dims_of(a, x), bool(a.get("keepdim", 0))),
    "cumsum": lambda a, x: torch.cumsum(x, a["dim"]),
    "any": truth("any"),
    "all": truth("all"),
    "prod": prod,
}

INFINITE = (1.0, -inf, 2.0, inf, 0.0, 1.0, nan, 0.0, 1.0)
TRUTH = (0.0, -0.0, 0.0, nan, 0.0, 0.0, 1.0, inf, 2.0)
CASES = [
    case("logsumexp", "logsumexp", lambda r: [r.leaf(2, 3)]),
    case("logsumexp_dim", "logsumexp", lambda r: [r.leaf(3, 4)], dims=[1]),
    case("logsumexp_dims", "logsumexp", lambda r: [r.leaf(2, 3, 2)], dims=[0, -1], keepdim=1),
    case("logsumexp_large", "logsumexp", lambda r: [leaf(1000.0, 1001.5, -2000.0)], dims=[0]),
    case("logsumexp_infinite", "logsumexp", lambda r: [leaf(*INFINITE, shape=(3, 3))], dims=[1], order=1),
    # PyTorch's gradient is NaN here, and bytetape's is 0.
    case("logsumexp_minus_infinity", "logsumexp", lambda r: [fixed(-inf, -inf)]),
    case("logsumexp_empty", "logsumexp", lambda r: [r.leaf(2, 0)], dims=[1]),
    case("logsumexp_scalar", "logsumexp", lambda r: [r.leaf()]),
    case("cumsum", "cumsum", lambda r: [r.leaf(3, 4)], dim=1),
    case("cumsum_0", "cumsum", lambda r: [r.leaf(3, 2, 2)], dim=-3),
    case("cumsum_infinite", "cumsum", lambda r: [leaf(1.0, inf, 2.0, -inf, 3.0)], dim=0),
    case("cumsum_integers", "cumsum", lambda r: [fixed(1, -2, 3, 4, shape=(2, 2))], dim=0),
    case("cumsum_bool", "cumsum", lambda r: [fixed(True, False, True, True)], dim=0),
    case("cumsum_empty", "cumsum", lambda r: [r.leaf(2, 0)], dim=1),
    case("cumsum_scalar", "cumsum", lambda r: [r.leaf()], dim=0),
    case("prod", "prod", lambda r: [r.leaf(2, 3)]),
    case("prod_dim", "prod", lambda r: [r.leaf(3, 4)], dims=[1], keepdim=1),
    case("prod_dims", "prod", lambda r: [r.leaf(2, 3, 2)], dims=[0, 2]),
    case("prod_zeros", "prod", lambda r: [leaf(2.0, 3.0, 0.5, 2.0, 0.0, 3.0, 0.0, 0.0, 4.0, shape=(3, 3))], dims=[1]),
    case("prod_all_zeros", "prod", lambda r: [leaf(2.0, 0.0, 3.0, 0.0)]),
    case("prod_integers", "prod", lambda r: [fixed(1, -2, 3, 4, shape=(2, 2))], dims=[0]),
    case("prod_bool", "prod", lambda r: [fixed(True, True, False, True, shape=(2, 2))], dims=[1]),
    case("prod_empty", "prod", lambda r: [r.leaf(2, 0)], dims=[1]),
    case("prod_scalar", "prod", lambda r: [r.leaf()]),
]
for name in ("any", "all"):
    CASES += [
        case(name, name, lambda r: [fixed(*TRUTH, shape=(3, 3))]),
        case(f"{name}_dim", name, lambda r: [fixed(*TRUTH, shape=(3, 3))], dims=[1], keepdim=1),
        case(f"{name}_dims", name, lambda r: [r.normal(2, 2, 3) > 1], dims=[0, -1]),
        case(f"{name}_integers", name, lambda r: [fixed(0, 0, 1, 2, shape=(2, 2))], dims=[1]),
        case(f"{name}_empty", name, lambda r: [torch.zeros(2, 0)[:, :].double()], dims=[1]),
        case(f"{name}_scalar", name, lambda r: [fixed(nan, shape=())]),
    ]
