#!/usr/bin/env python3
"""Fails on a thread-local variable that docs/architecture.md does not list.

A mode, which changes what code does, is a member of the struct in its folder's ambient.h. The page has a table row for
each member: | `core/ambient.h` | `capture` | ... |. Other thread-local variables are caches and scratch. The page names
the file of each.

usage: scripts/check_ambient.py [--root DIR]    checks a tree, this one by default
       scripts/check_ambient.py --self-test     checks the checker, on trees made for it
"""

import argparse
import pathlib
import re
import sys
import tempfile

FOLDERS = ("core", "autograd", "nn", "optim", "data", "cuda", "distributed", "onnx")
PAGE = "docs/architecture.md"
STRUCT = re.compile(r"^struct \w*Ambient \{\n(?P<body>.*?)^\};", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"^  [\w:<>,* ]+?[ *](?P<name>\w+)(?: = [^;]+|\{[^;]*\});", re.MULTILINE)
ROW = re.compile(r"^\| `(?P<file>[^`]+)` \| `(?P<member>\w+)` \|", re.MULTILINE)
COMMENT = re.compile(r"//.*")


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cuh", ".cpp", ".cu"):
                yield path.relative_to(root).as_posix(), path.read_text()


def members(text):
    """The members of the structs of an ambient.h."""
    return [member["name"] for struct in STRUCT.finditer(text) for member in MEMBER.finditer(struct["body"])]


def faults(root):
    page = (root / PAGE).read_text()
    listed = {(row["file"], row["member"]) for row in ROW.finditer(page)}
    found = set()
    for path, text in sources(root):
        if path.endswith("/ambient.h"):
            found |= {(path, member) for member in members(text)}
        elif "thread_local" in COMMENT.sub("", text) and f"`{path}`" not in page:
            yield f"{path}: has a thread-local variable. Make it a member of the folder's ambient.h, or, if it is not a mode, list the file in {PAGE}"
    for path, member in sorted(found - listed):
        yield f"{path}: {PAGE} has no row for `{member}`"
    for path, member in sorted(listed - found):
        yield f"{PAGE}: lists `{member}`, which is not a member in {path}"


def self_test():
    header = "struct Place {\n  int* at = nullptr;\n};\nstruct CoreAmbient {\n  /// A mode; int x = 1;\n  Device device{};\n  const A::B* b = nullptr;\n};\n"
    rows = "| `core/ambient.h` | `device` | x |\n| `core/ambient.h` | `b` | x |\n"
    base = {"core/ambient.h": header, "core/a.cpp": "int f(); // thread_local\n", PAGE: rows}
    cases = [
        ({}, []),
        ({PAGE: rows.replace("`b`", "b")}, ["core/ambient.h"]),
        ({PAGE: rows + "| `core/ambient.h` | `at` | x |\n"}, [PAGE]),
        ({"cuda/b.cu": "static thread_local int cache;\n"}, ["cuda/b.cu"]),
        ({"cuda/b.cu": "static thread_local int cache;\n", PAGE: rows + "`cuda/b.cu`\n"}, []),
    ]
    for changes, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            for path, text in (base | changes).items():
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            found = [fault.split(":")[0] for fault in faults(pathlib.Path(folder))]
        if found != expected:
            sys.exit(f"self-test: expected {expected}, got {found} of {changes}")
    print(f"self-test: {len(cases)} cases as expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    found = list(faults(arguments.root))
    print("\n".join(found) or f"{PAGE} lists every thread-local variable")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
