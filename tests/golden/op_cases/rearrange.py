"""Ops that move elements, and triangles."""
import torch

from golden_case import case, fixed

OPS = {
    "flip": lambda a, x: torch.flip(x, a["dims"]),
    "roll": lambda a, x: torch.roll(x, a["shifts"], a.get("dims", ())),
    "repeat": lambda a, x: x.repeat(a["repeats"]),
    "tril": lambda a, x: torch.tril(x, a.get("diagonal", 0)),
    "triu": lambda a, x: torch.triu(x, a.get("diagonal", 0)),
}

CASES = [
    case("flip", "flip", lambda r: [r.leaf(2, 3, 2)], dims=[0, -1]),
    case("flip_nothing", "flip", lambda r: [r.leaf(2, 3)], dims=[]),
    case("flip_bool", "flip", lambda r: [fixed(True, False, False)], dims=[0]),
    case("flip_empty", "flip", lambda r: [r.leaf(0, 3)], dims=[1]),
    case("roll", "roll", lambda r: [r.leaf(3, 4)], shifts=[1, -6], dims=[0, -1]),
    case("roll_same_dim", "roll", lambda r: [r.leaf(5)], shifts=[3, 4], dims=[0, 0]),
    case("roll_flat", "roll", lambda r: [r.leaf(2, 3)], shifts=[-2]),
    case("roll_integers", "roll", lambda r: [fixed(1, 2, 3)], shifts=[1], dims=[0]),
    case("roll_empty", "roll", lambda r: [r.leaf(2, 0)], shifts=[1], dims=[1]),
    case("repeat", "repeat", lambda r: [r.leaf(2, 3)], repeats=[2, 1]),
    case("repeat_new_dims", "repeat", lambda r: [r.leaf(2, 1)], repeats=[2, 1, 3]),
    case("repeat_nothing", "repeat", lambda r: [r.leaf(2, 3)], repeats=[0, 2]),
    case("repeat_scalar", "repeat", lambda r: [r.leaf()], repeats=[3]),
    case("repeat_bool", "repeat", lambda r: [fixed(True, False)], repeats=[2, 2]),
]
for name in ("tril", "triu"):
    CASES += [
        case(name, name, lambda r: [r.leaf(3, 4)]),
        case(f"{name}_above", name, lambda r: [r.leaf(3, 3)], diagonal=1),
        case(f"{name}_below", name, lambda r: [r.leaf(2, 4, 2)], diagonal=-2),
        case(f"{name}_beyond", name, lambda r: [r.leaf(2, 2)], diagonal=5),
        case(f"{name}_bool", name, lambda r: [torch.ones(3, 3, dtype=torch.bool)]),
        case(f"{name}_empty", name, lambda r: [r.leaf(0, 3)]),
    ]
