#!/usr/bin/env python3
"""Writes ops.csv: results, gradients and second gradients of PyTorch's ops, for tests/ops/golden_test.cpp.

    pip install torch && python3 tests/golden/ops.py

Everything is float64. golden_case.py explains the table. The cases, and PyTorch's functions, are in op_cases.
"""
import pathlib

import golden_case
from op_cases import elementwise, indexing, losses, ordering, products, rearrange, reduce

GROUPS = (elementwise, indexing, ordering, reduce, rearrange, products, losses)


def main():
    ops = {name: op for group in GROUPS for name, op in group.OPS.items()}
    cases = [c for group in GROUPS for c in group.CASES]
    golden_case.write(pathlib.Path(__file__).with_suffix(".csv"), "ops.py", cases, ops)


main()
