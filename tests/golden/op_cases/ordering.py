"""Sorting, and the largest and smallest elements. topk's indices are compared where no elements are equal, since
PyTorch leaves their order open."""
from math import inf, nan

import torch

from golden_case import case, fixed, leaf


def sort(a, x):
    return torch.sort(x, dim=a.get("dim", -1), descending=bool(a.get("descending", 0)), stable=True)


def topk(a, x):
    return torch.topk(x, a["k"], a.get("dim", -1), bool(a.get("largest", 1)))


def argument(name):
    return lambda a, x: getattr(torch, name)(x, a.get("dim"), bool(a.get("keepdim", 0)))


def with_indices(name):
    return lambda a, x: tuple(getattr(torch, name)(x, a["dim"], bool(a.get("keepdim", 0))))


def reduced(name):
    return lambda a, x: getattr(torch, name)(x, a.get("dims", ()), bool(a.get("keepdim", 0)))


OPS = {
    "sort": lambda a, x: tuple(sort(a, x)),
    "argsort": lambda a, x: sort(a, x).indices,
    "topk": lambda a, x: tuple(topk(a, x)),
    "topk_values": lambda a, x: topk(a, x).values,
    "argmax": argument("argmax"),
    "argmin": argument("argmin"),
    "max_with_indices": with_indices("max"),
    "min_with_indices": with_indices("min"),
    "max": reduced("amax"),
    "min": reduced("amin"),
}

TIES = (2.0, 1.0, 2.0, 0.0, 1.0, 2.0, -0.0, 0.0)
ODD = (1.0, nan, -inf, 0.0, -0.0, inf, nan, -1.0)
CASES = []
for descending in (0, 1):
    where = {"descending": descending} if descending else {}
    end = "_descending" if descending else ""
    CASES += [
        case(f"sort{end}", "sort", lambda r: [r.leaf(3, 4)], dim=0, **where),
        case(f"sort_ties{end}", "sort", lambda r: [leaf(*TIES, shape=(2, 4))], **where),
        case(f"sort_odd{end}", "sort", lambda r: [leaf(*ODD)], **where),
        case(f"sort_integers{end}", "sort", lambda r: [fixed(3, -1, 3, 0, -1)], **where),
        case(f"sort_bool{end}", "sort", lambda r: [fixed(True, False, True, False, False)], **where),
        case(f"argsort{end}", "argsort", lambda r: [r.normal(2, 3, 2)], dim=1, **where),
        case(f"argsort_odd{end}", "argsort", lambda r: [fixed(*ODD)], **where),
    ]
CASES += [
    case("sort_scalar", "sort", lambda r: [r.leaf()], dim=0),
    case("sort_empty", "sort", lambda r: [r.leaf(2, 0)]),
    case("sort_empty_batch", "sort", lambda r: [r.leaf(0, 3)]),
    case("argsort_ties", "argsort", lambda r: [fixed(*TIES)]),
]
for largest in (0, 1):
    end = "" if largest else "_smallest"
    CASES += [
        case(f"topk{end}", "topk", lambda r: [r.leaf(3, 5)], k=2, largest=largest),
        case(f"topk_0{end}", "topk", lambda r: [r.leaf(4, 2)], k=3, dim=0, largest=largest),
        case(f"topk_ties{end}", "topk_values", lambda r: [fixed(*TIES[:6])], k=4, largest=largest),
        case(f"topk_nan{end}", "topk", lambda r: [leaf(1.0, nan, -inf, inf, -1.0)], k=3, largest=largest),
    ]
CASES += [
    case("topk_nothing", "topk", lambda r: [r.leaf(2, 3)], k=0),
    case("topk_all", "topk", lambda r: [r.leaf(5)], k=5),
    case("topk_scalar", "topk", lambda r: [r.leaf()], k=1),
]
for name in ("max", "min"):
    CASES += [
        case(f"{name}_with_indices", f"{name}_with_indices", lambda r: [r.leaf(3, 4)], dim=1),
        case(f"{name}_with_indices_kept", f"{name}_with_indices", lambda r: [r.leaf(3, 2)], dim=0, keepdim=1),
        case(f"{name}_with_indices_ties", f"{name}_with_indices", lambda r: [leaf(*TIES, shape=(2, 4))], dim=1),
        case(f"{name}_with_indices_nan", f"{name}_with_indices", lambda r: [leaf(*ODD, shape=(2, 4))], dim=1),
        case(f"{name}_with_indices_scalar", f"{name}_with_indices", lambda r: [r.leaf()], dim=0),
        case(f"{name}_with_indices_empty", f"{name}_with_indices", lambda r: [r.leaf(0, 3)], dim=1),
        case(f"{name}_all", name, lambda r: [r.leaf(2, 3)]),
        case(f"{name}_dims", name, lambda r: [r.leaf(2, 3, 2)], dims=[0, -1], keepdim=1),
        case(f"{name}_ties", name, lambda r: [leaf(*TIES, shape=(2, 4))], dims=[1]),
        case(f"{name}_nan", name, lambda r: [leaf(*ODD, shape=(2, 4))], dims=[1], order=1),
        case(f"arg{name}", f"arg{name}", lambda r: [fixed(*TIES, shape=(2, 4))]),
        case(f"arg{name}_dim", f"arg{name}", lambda r: [fixed(*TIES, shape=(2, 4))], dim=1, keepdim=1),
        case(f"arg{name}_nan", f"arg{name}", lambda r: [fixed(*ODD, shape=(2, 4))], dim=1),
    ]
