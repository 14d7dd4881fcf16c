#!/usr/bin/env python3
"""Fails on an include that breaks the rules in CONTRIBUTING.md, "Folders".

usage: scripts/check_includes.py [--root DIR]    checks a tree, this one by default
       scripts/check_includes.py --self-test     checks the checker, on trees made for it
"""

import argparse
import pathlib
import re
import sys
import tempfile

# The folders or headers of ours that a folder may include besides itself.
MAY_INCLUDE = {
    "core": [],
    "autograd": ["core"],
    "nn": ["autograd", "core"],
    "optim": ["autograd", "core"],
    "data": ["core"],
    "cuda": ["core"],
    "distributed": ["nn", "optim", "autograd", "core"],
    "onnx": ["nn", "autograd", "core"],
    "python": ["autograd", "core", "version.h"],
}
# Folders whose headers only core's sources may include. They are not installed.
PRIVATE_FOLDERS = ("core/cpu/", "core/memory/text/")
# Libraries for sources only. A public header that includes one would require it of all users.
PRIVATE_LIBRARIES = ("Eigen/", "fmt/", "nlohmann/", "dnnl", "oneapi/", "zlib.h", "omp.h", "mpi.h", "dlpack/", "onnx/", "google/", "CLI/", "gtest/")

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<quoted>[^"]+)"|<(?P<angled>[^>]+)>|(?P<macro>\w+))')


def is_public(path):
    return path.suffix == ".h" and not path.as_posix().startswith(PRIVATE_FOLDERS) and path.parts[0] != "cuda"


def fault(path, match):
    """The fault of an include line of the file at `path` (relative to the root), or None."""
    if match["macro"]:
        return "includes through a macro, which cannot be checked"
    name = match["quoted"] or match["angled"]
    if not name.startswith("bytetape/"):
        if match["quoted"]:
            return f'includes "{name}": write "bytetape/<folder>/..."'
        if is_public(path) and name.startswith(PRIVATE_LIBRARIES):
            return f"includes <{name}>, but a public header may include only the standard library and other public headers"
        return None
    inner, folder = name.removeprefix("bytetape/"), path.parts[0]
    if inner.startswith(PRIVATE_FOLDERS) and (folder != "core" or is_public(path)):
        return f"includes {name}, which is private to core"
    if inner.split("/")[0] == folder or any(inner == m or inner.startswith(m + "/") for m in MAY_INCLUDE[folder]):
        return None
    return f"includes {name}, but {folder} may include only: {', '.join([folder] + MAY_INCLUDE[folder])}"


def faults(root):
    for folder in MAY_INCLUDE:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".cu", ".cuh"):
                continue
            path = file.relative_to(root)
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if match and (what := fault(path, match)):
                    yield f"{path}:{number}: {what}"


def self_test():
    """Checks whether each line, alone in a tree, is allowed."""
    cases = [
        ("core/a.cpp", '#include "bytetape/core/b.h"', True),
        ("core/a.cpp", '#include "bytetape/autograd/node.h"', False),
        ("core/a.cpp", "#  include <bytetape/cuda/table.h>", False),
        ("core/a.cpp", '#include "b.h"', False),
        ("core/a.cpp", '#include "../nn/module.h"', False),
        ("core/a.cpp", "#include HEADER", False),
        ("core/a.cpp", '#include "bytetape/core/cpu/table.h"', True),
        ("core/a.h", '#include "bytetape/core/cpu/table.h"', False),
        ("core/a.cpp", "#include <fmt/format.h>", True),
        ("core/a.h", "#include <fmt/format.h>", False),
        ("core/cpu/a.h", "#include <Eigen/Core>", True),
        ("core/memory/text/a.h", "#include <fmt/format.h>", True),
        ("core/memory/a.h", '#include "bytetape/core/memory/text/a.h"', False),
        ("nn/a.cpp", '#include "bytetape/core/memory/text/a.h"', False),
        ("core/a.h", "#include <vector>", True),
        ("core/a.h", '// #include "bytetape/nn/module.h"', True),
        ("autograd/ops/a.cpp", '#include "bytetape/core/tensor.h"', True),
        ("autograd/ops/a.cpp", '#include "bytetape/core/cpu/loop.h"', False),
        ("autograd/ops/a.cpp", '#include "bytetape/nn/module.h"', False),
        ("nn/a.h", '#include "bytetape/autograd/ops/images/conv.h"', True),
        ("nn/a.h", '#include "bytetape/optim/sgd.h"', False),
        ("optim/a.cpp", '#include "bytetape/autograd/grad_mode.h"', True),
        ("optim/a.cpp", '#include "bytetape/nn/module.h"', False),
        ("data/a.cpp", '#include "bytetape/autograd/grad_mode.h"', False),
        ("data/a.cpp", '#include "bytetape/bytetape.h"', False),
        ("onnx/a.cpp", "#include <onnx/onnx_pb.h>", True),
        ("onnx/a.h", "#include <onnx/onnx_pb.h>", False),
        ("cuda/a.cu", '#include "bytetape/core/kernels/table.h"', True),
        ("cuda/a.cu", '#include "bytetape/autograd/node.h"', False),
    ]
    for path, line, allowed in cases:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True)
            file.write_text(f"#pragma once\n{line}\n")
            found = list(faults(pathlib.Path(folder)))
        if bool(found) == allowed:
            sys.exit(f"self-test: {path} with {line}: expected {'nothing' if allowed else 'a fault'}, got {found}")
    print(f"self-test: {len(cases)} cases as expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    found = list(faults(arguments.root))
    print("\n".join(found) or "all includes follow the rules")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
