"""Ops with indices. Indices of scatter and index_copy are distinct, since PyTorch's gradient is wrong for others."""
from math import inf, nan

import torch
from torch.nn import functional as F

from golden_case import case, fixed


def bound(text):
    return int(text) if text else None


def one_index(text, tensors):
    """An index of one dim: "3", "1:5", "None", "...", or "t" and "u" for the tensors."""
    if ":" in text:
        return slice(*(bound(b) for b in text.split(":")))
    words = {"None": None, "...": Ellipsis, **dict(zip("tu", tensors))}
    return words[text] if text in words else int(text)


def index(a, x, *tensors):
    return x[tuple(one_index(text, tensors) for text in a["at"].split())]


def functional(name):
    return lambda a, x, i, src: getattr(torch, name)(x, a["dim"], i, src)


def in_place(name):
    return lambda a, x, i, src: getattr(x.clone(), name)(a["dim"], i, src)


OPS = {
    "embedding": lambda a, i, weight: F.embedding(i, weight, padding_idx=a.get("padding_idx")),
    "gather": lambda a, x, i: torch.gather(x, a["dim"], i),
    "index_select": lambda a, x, i: torch.index_select(x, a["dim"], i),
    "scatter_number": lambda a, x, i: torch.scatter(x, a["dim"], i, a["value"]),
    "index": index,
    "nonzero": lambda a, x: torch.nonzero(x),
}
OPS |= {name: functional(name) for name in ("scatter", "scatter_add", "index_add", "index_copy")}
OPS |= {name: in_place(name) for name in ("scatter_", "scatter_add_", "index_add_", "index_copy_")}


def none(*shape):
    return torch.zeros(shape, dtype=torch.int64)


def slices(m, *index):
    """x (3, 4), distinct or repeated indices along dim 1, and src."""
    return lambda r: [r.leaf(3, 4), fixed(*index), r.leaf(3, m)]


def elements(*index, shape):
    return lambda r: [r.leaf(3, 4), fixed(*index, shape=shape), r.leaf(*shape)]


CASES = [
    case("embedding", "embedding", lambda r: [fixed(1, 4, 1, 0, 2, 1, shape=(2, 3)), r.leaf(5, 2)]),
    case("embedding_padding", "embedding", lambda r: [fixed(1, 4, 1, 0, shape=(2, 2)), r.leaf(5, 2)], padding_idx=1),
    case("embedding_padding_from_end", "embedding", lambda r: [fixed(1, 4, 1, 0), r.leaf(5, 2)], padding_idx=-1),
    case("embedding_scalar", "embedding", lambda r: [fixed(3, shape=()), r.leaf(5, 2)]),
    case("embedding_empty", "embedding", lambda r: [none(0, 2), r.leaf(5, 2)], order=1),
    case("gather_0", "gather", lambda r: [r.leaf(3, 4), fixed(0, 2, 2, 1, 2, 0, shape=(2, 3))], dim=0),
    case("gather_1", "gather", lambda r: [r.leaf(3, 4), fixed(3, 3, 0, 1, 2, 3, 0, 0, 0, 1, shape=(2, 5))], dim=-1),
    case("gather_3d", "gather", lambda r: [r.leaf(2, 3, 2), fixed(0, 2, 1, 1, shape=(2, 1, 2))], dim=1),
    case("gather_scalar", "gather", lambda r: [r.leaf(), fixed(0, shape=())], dim=0),
    case("gather_empty", "gather", lambda r: [r.leaf(3, 4), none(3, 0)], dim=1),
    case("gather_integers", "gather", lambda r: [fixed(5, 6, 7), fixed(2, 0, 2, 1)], dim=0),
    case("scatter_0", "scatter", elements(2, 0, 1, 0, 1, 0, shape=(2, 3)), dim=0),
    case("scatter_1", "scatter", elements(3, 0, 1, 2, shape=(2, 2)), dim=-1),
    case("scatter_in_place", "scatter_", elements(3, 0, 1, 2, 0, 1, shape=(3, 2)), dim=1),
    case("scatter_empty", "scatter", lambda r: [r.leaf(3, 4), none(3, 0), r.leaf(3, 0)], dim=1),
    case("scatter_number", "scatter_number", lambda r: [r.leaf(3, 4), fixed(1, 1, 0, 3, shape=(2, 2))], dim=1,
         value=-2.5),
    case("scatter_add_0", "scatter_add", elements(2, 0, 1, 2, 0, 0, shape=(2, 3)), dim=0),
    case("scatter_add_1", "scatter_add", elements(3, 3, 3, 0, 1, 0, shape=(2, 3)), dim=-1),
    case("scatter_add_in_place", "scatter_add_", elements(3, 3, 3, 0, 1, 0, shape=(3, 2)), dim=1),
    case("scatter_add_empty", "scatter_add", lambda r: [r.leaf(3, 4), none(0, 4), r.leaf(0, 4)], dim=0),
    case("index_select", "index_select", lambda r: [r.leaf(3, 4), fixed(3, 0, 3)], dim=1),
    case("index_select_empty", "index_select", lambda r: [r.leaf(3, 4), none(0)], dim=0),
    case("index_add_0", "index_add", lambda r: [r.leaf(3, 2), fixed(2, 0, 2, 2), r.leaf(4, 2)], dim=0),
    case("index_add_1", "index_add", slices(3, 1, 1, 3), dim=-1),
    case("index_add_in_place", "index_add_", slices(3, 0, 2, 0), dim=1),
    case("index_add_empty", "index_add", lambda r: [r.leaf(3, 4), none(0), r.leaf(3, 0)], dim=1),
    case("index_add_integers", "index_add", lambda r: [fixed(1, 2, 3), fixed(1, 1), fixed(10, 20)], dim=0),
    case("index_copy_0", "index_copy", lambda r: [r.leaf(3, 2), fixed(2, 0), r.leaf(2, 2)], dim=0),
    case("index_copy_1", "index_copy", slices(3, 3, 1, 0), dim=-1),
    case("index_copy_in_place", "index_copy_", slices(2, 2, 0), dim=1),
    case("index_copy_empty", "index_copy_", lambda r: [r.leaf(3, 4), none(0), r.leaf(3, 0)], dim=1),
    case("index_copy_bool", "index_copy", lambda r: [fixed(True, True, False), fixed(2, 0), fixed(True, False)], dim=0),
    case("index_ranges", "index", lambda r: [r.leaf(5, 2, 6)], at="1:4 None 1 ... ::2"),
    case("index_from_end", "index", lambda r: [r.leaf(3, 2, 4)], at="-2 ... -3:-1"),
    case("index_beyond", "index", lambda r: [r.leaf(4, 2)], at="-9:2 1:9:3"),
    case("index_nothing", "index", lambda r: [r.leaf(4, 2)], at="3:1 None"),
    case("index_ellipsis", "index", lambda r: [r.leaf(2, 3)], at="..."),
    case("index_scalar", "index", lambda r: [r.leaf(2, 3)], at="1 2"),
    case("index_tensor", "index", lambda r: [r.leaf(2, 3, 2), fixed(2, 0, 2, 1, shape=(2, 2))], at=": t"),
    case("index_tensor_last", "index", lambda r: [r.leaf(3, 4), fixed(3, 3, 0)], at="... 1: t"),
    case("index_tensor_and_number", "index", lambda r: [r.leaf(2, 3, 4), fixed(3, 3, 0)], at="1 None ::2 t"),
    case("index_tensor_empty", "index", lambda r: [r.leaf(2, 3), none(0)], at="t"),
    case("index_tensor_from_end", "index", lambda r: [r.leaf(3, 4), fixed(-1, 2, -4, 0)], at=": t"),
    case("index_tensors", "index", lambda r: [r.leaf(2, 3, 4), fixed(2, -1, 0), fixed(-4, 3, 1)], at=": t u"),
    case("index_tensors_broadcast", "index", lambda r: [r.leaf(3, 4, 2), fixed(2, 0, shape=(2, 1)), fixed(1, 1, -1)],
         at="t u 1:"),
    case("index_tensors_apart", "index", lambda r: [r.leaf(2, 3, 4), fixed(1, 0, 1), fixed(3, 3, -2)], at="t : u"),
    case("index_tensors_around_none", "index", lambda r: [r.leaf(2, 3, 4), fixed(1, 0), fixed(2, 0)], at="1:2 t None u"),
    case("index_tensors_around_number", "index", lambda r: [r.leaf(3, 2, 4), fixed(1, 0), fixed(2, 0)], at="t 1 u"),
    case("index_tensors_ellipsis_of_none", "index", lambda r: [r.leaf(3, 4), fixed(1, 0), fixed(2, 0)], at="t ... u"),
    case("index_tensors_empty", "index", lambda r: [r.leaf(3, 4), none(0), none(2, 0)], at="t u"),
    case("index_mask_and_tensor", "index",
         lambda r: [r.leaf(2, 3, 4), fixed(True, False, False, False, True, True, shape=(2, 3)), fixed(0, 3, -3)], at="t u"),
    case("index_mask_and_scalar", "index", lambda r: [r.leaf(3, 4), fixed(True, False, True), fixed(-1, shape=())],
         at="t u"),
    case("index_mask", "index", lambda r: [r.leaf(2, 3, 2), fixed(True, False, False, False, True, True, shape=(2, 3))],
         at="t 1"),
    case("index_mask_last", "index", lambda r: [r.leaf(2, 3), fixed(True, False, True)], at="None : t"),
    case("index_mask_of_none", "index", lambda r: [r.leaf(2, 2), fixed(False, False)], at="t"),
    case("nonzero", "nonzero", lambda r: [fixed(0.0, -0.0, nan, 0.5, 0.0, inf, shape=(2, 3))]),
    case("nonzero_scalar", "nonzero", lambda r: [fixed(2.0, shape=())]),
    case("nonzero_none", "nonzero", lambda r: [fixed(0, 0)]),
]
