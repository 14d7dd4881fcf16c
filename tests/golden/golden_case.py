"""Cases of ops.py and layers.py, and what PyTorch makes of them.

A case is some lines of a table:

    op,NAME,OP,KEY=VALUE,...  the op and its arguments; a list has spaces between its elements
    x,DTYPE,SHAPE,VALUE,...   an input that requires grad; a line for each, in order
    c,...                     an input that does not
    y,...                     a result
    v,...                     the incoming gradient of a result that is differentiable
    g,...                     the gradient of an x
    w,...                     the weights of a gradient
    h,...                     the gradient of sum(g * w): of each x, then of each v

A shape is written 2x3, and "scalar" without dims. Cases of order 0 end with y, and cases of order 1 with g.
"""
import dataclasses
import typing
import zlib

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}


class Random:
    """Random numbers of two decimals, which make a short table. The name is the seed."""

    def __init__(self, name):
        self.generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))

    def normal(self, *shape, scale=1.0):
        x = scale * torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return (x * 100).round() / 100

    def leaf(self, *shape, scale=1.0):
        return self.normal(*shape, scale=scale).requires_grad_()

    def positive(self, *shape):
        return self.normal(*shape).abs() + 0.01


def fixed(*values, shape=(-1,)):
    """A tensor of these numbers that requires no grad. Its dtype is that of the first number, f64 for a float."""
    dtype = {float: torch.float64, int: torch.int64, bool: torch.bool}[type(values[0])]
    return torch.tensor(values, dtype=dtype).reshape(shape)


def leaf(*values, shape=(-1,)):
    return fixed(*values, shape=shape).requires_grad_()


@dataclasses.dataclass
class Case:
    name: str
    op: str
    inputs: typing.Callable  # of a Random
    order: int
    arguments: dict


def case(name, op, inputs, order=2, **arguments):
    return Case(name, op, inputs, order, arguments)


def number(v):
    """12 digits suffice for a tolerance of 1e-9."""
    return f"{v:.12g}" if isinstance(v, float) else str(int(v))


def argument(v):
    if isinstance(v, str):
        return v
    return " ".join(map(number, v)) if isinstance(v, (list, tuple)) else number(v)


def line(what, x):
    shape = "x".join(map(str, x.shape)) or "scalar"
    return ",".join([what, DTYPES[x.dtype], shape] + [number(v) for v in x.detach().flatten().tolist()])


def gradients(outputs, inputs, seeds, order):
    """The gradients of the inputs, and zeros for an input that no output depends on."""
    used = [(y, seed) for y, seed in zip(outputs, seeds) if y.requires_grad]
    if not used:
        return [torch.zeros_like(x) for x in inputs]
    return torch.autograd.grad([y for y, _ in used], inputs, [seed for _, seed in used], create_graph=order == 2,
                               allow_unused=True, materialize_grads=True)


def lines(c, op):
    """The lines of a case."""
    random = Random(c.name)
    inputs = c.inputs(random)
    y = op(c.arguments, *inputs)
    outputs = list(y) if isinstance(y, (tuple, list)) else [y]
    yield ",".join(["op", c.name, c.op] + [f"{key}={argument(v)}" for key, v in c.arguments.items()])
    for x in inputs:
        yield line("x" if x.requires_grad else "c", x)
    yield from (line("y", y) for y in outputs)
    leaves = [x for x in inputs if x.requires_grad]
    outputs = [y for y in outputs if y.requires_grad]
    if c.order == 0 or not outputs:
        return
    v = [random.leaf(*y.shape) for y in outputs]
    g = gradients(outputs, leaves, v, c.order)
    yield from (line("v", t) for t in v)
    yield from (line("g", t) for t in g)
    if c.order == 1:
        return
    w = [random.normal(*t.shape) for t in g]
    yield from (line("w", t) for t in w)
    yield from (line("h", t) for t in gradients(g, leaves + v, w, 1))


def write(path, script, cases, ops):
    """Writes the table of the cases. PyTorch's other attention backends have no second gradients."""
    found = [f"# made by tests/golden/{script} with torch {torch.__version__.split('+')[0]}"]
    names = [c.name for c in cases]
    assert len(set(names)) == len(names), "two cases have one name"
    with sdpa_kernel(SDPBackend.MATH):
        for c in cases:
            found.extend(lines(c, ops[c.op]))
    path.write_text("\n".join(found) + "\n")
