"""einsum, conv1d, attention and rms_norm."""
import torch
from torch.nn import functional as F

from golden_case import case, leaf


def einsum(a, *x):
    """The table has commas between its cells, so equations have semicolons."""
    return torch.einsum(a["equation"].replace(";", ","), *x)


def conv1d(a, x, weight, *bias):
    return F.conv1d(x, weight, *bias, stride=a.get("stride", 1), padding=a.get("padding", 0),
                    dilation=a.get("dilation", 1), groups=a.get("groups", 1))


def attention(a, q, k, v, mask=None):
    """PyTorch takes a mask or causal, so both are one mask here."""
    causal = bool(a.get("causal", 0))
    if causal and mask is not None:
        lower = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
        mask = mask & lower if mask.dtype == torch.bool else mask.masked_fill(~lower, -torch.inf)
        causal = False
    return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=a.get("scale"),
                                          enable_gqa=q.shape[1] != k.shape[1])


OPS = {
    "einsum": einsum,
    "conv1d": conv1d,
    "scaled_dot_product_attention": attention,
    "rms_norm": lambda a, x, *weight: F.rms_norm(x, a["shape"], *weight, eps=a.get("eps")),
}


def equation(name, text, *shapes):
    return case(f"einsum_{name}", "einsum", lambda r: [r.leaf(*shape) for shape in shapes], equation=text)


CASES = [
    equation("matmul", "ij;jk->ik", (2, 3), (3, 2)),
    equation("batched", "bhqd;bhkd->bhqk", (2, 1, 2, 3), (2, 1, 3, 3)),
    equation("transposed", "bji;bkj->bik", (2, 3, 2), (2, 2, 3)),
    equation("outer", "i;j->ji", (2,), (3,)),
    equation("dot", "i;i->", (3,), (3,)),
    equation("elementwise", "ij;ij->ij", (2, 3), (2, 3)),
    equation("sum_before", "ijk;jl->il", (2, 3, 2), (3, 2)),
    equation("implicit", "ba;bc", (3, 2), (3, 2)),
    equation("ellipsis", "...ij;...jk->...ik", (2, 2, 3), (3, 2)),
    equation("ellipsis_summed", "i...;i->i", (2, 3), (2,)),
    equation("size_1", "ij;jk->ik", (2, 1), (3, 2)),
    equation("permuted", "ijk->kij", (2, 3, 2)),
    equation("reduced", "ijk->j", (2, 3, 2)),
    equation("empty", "ij;jk->ik", (2, 0), (0, 2)),
]

CASES += [
    case("conv1d", "conv1d", lambda r: [r.leaf(2, 2, 5), r.leaf(3, 2, 3), r.leaf(3)]),
    case("conv1d_strided", "conv1d", lambda r: [r.leaf(1, 2, 7), r.leaf(2, 2, 3), r.leaf(2)], stride=2, padding=1),
    case("conv1d_dilated", "conv1d", lambda r: [r.leaf(1, 2, 6), r.leaf(2, 2, 2)], dilation=3, padding=2),
    case("conv1d_grouped", "conv1d", lambda r: [r.leaf(2, 4, 4), r.leaf(4, 2, 3), r.leaf(4)], groups=2, padding=1),
    case("conv1d_depthwise", "conv1d", lambda r: [r.leaf(1, 3, 4), r.leaf(6, 1, 2), r.leaf(6)], groups=3),
    case("conv1d_no_batch", "conv1d", lambda r: [r.leaf(0, 2, 4), r.leaf(1, 2, 2), r.leaf(1)]),
]


def qkv(r, heads=2, key_heads=2, n=3, m=3):
    return [r.leaf(1, heads, n, 2), r.leaf(1, key_heads, m, 2), r.leaf(1, key_heads, m, 1)]


def some(r, *shape):
    """A mask in which each query may attend to key 0 at least."""
    mask = r.normal(*shape) > 0
    mask[..., 0] = True
    return mask


def lonely(r):
    """A mask in which query 1 may attend to no key."""
    mask = some(r, 3, 3)
    mask[1] = False
    return mask


def sdpa(name, inputs, order=1, **arguments):
    return case(f"attention_{name}", "scaled_dot_product_attention", inputs, order, **arguments)


CASES += [
    sdpa("plain", qkv, order=2),
    sdpa("to_other", lambda r: qkv(r, n=2, m=4)),
    sdpa("scaled", qkv, scale=0.3),
    sdpa("causal", qkv, order=2, causal=1),
    sdpa("causal_longer_keys", lambda r: qkv(r, n=2, m=4), causal=1),
    sdpa("causal_longer_queries", lambda r: qkv(r, n=4, m=2), causal=1),
    sdpa("grouped", lambda r: qkv(r, heads=4, n=2), order=2),
    sdpa("one_key_head", lambda r: qkv(r, key_heads=1), causal=1),
    sdpa("bool_mask", lambda r: [*qkv(r), some(r, 3, 3)], order=2),
    sdpa("bool_mask_per_head", lambda r: [*qkv(r), some(r, 1, 2, 3, 3)]),
    sdpa("bool_mask_of_keys", lambda r: [*qkv(r, n=2), some(r, 1, 1, 1, 3)]),
    sdpa("lonely_query", lambda r: [*qkv(r), lonely(r)], order=2),
    sdpa("mask", lambda r: [*qkv(r), r.normal(1, 1, 3, 3)]),
    sdpa("mask_grouped", lambda r: [*qkv(r, heads=4, n=2), r.normal(2, 3)], scale=0.5),
    sdpa("mask_with_gradient", lambda r: [*qkv(r), r.leaf(3, 3)], order=2),
    sdpa("mask_infinite", lambda r: [*qkv(r), r.normal(3, 3).masked_fill(~some(r, 3, 3), -torch.inf)]),
    sdpa("mask_and_causal", lambda r: [*qkv(r), r.normal(3, 3)], causal=1),
    sdpa("bool_mask_and_causal", lambda r: [*qkv(r), some(r, 3, 3)], causal=1),
]

CASES += [
    case("rms_norm", "rms_norm", lambda r: [r.leaf(3, 4), r.leaf(4)], shape=[4], eps=1e-5),
    case("rms_norm_default_eps", "rms_norm", lambda r: [r.leaf(2, 3), r.leaf(3)], shape=[3]),
    case("rms_norm_two_dims", "rms_norm", lambda r: [r.leaf(2, 2, 3), r.leaf(2, 3)], shape=[2, 3], eps=0.1),
    case("rms_norm_without_weight", "rms_norm", lambda r: [r.leaf(2, 3)], shape=[3], eps=0.0),
    case("rms_norm_zeros", "rms_norm", lambda r: [leaf(0.0, 0.0, 0.0), r.positive(3).requires_grad_()], shape=[3]),
    case("rms_norm_empty", "rms_norm", lambda r: [r.leaf(0, 3), r.leaf(3)], shape=[3]),
]
