#!/usr/bin/env python3
"""Prints how many sources include each of our headers, directly or not: the sources that an edit of it recompiles.

usage: scripts/fan_in.py [--root DIR] [--most N]    prints the N (30) headers that most sources include, with their ceilings
       scripts/fan_in.py --check                    fails if a larger share of sources includes a header than its ceiling
       scripts/fan_in.py --why HEADER               prints the headers through which most sources include it, with counts
       scripts/fan_in.py --self-test                checks the counting, on a tree made for it
"""

import argparse
import collections
import pathlib
import re
import sys
import tempfile

# The largest share of all sources, in percent, that may include a header.
CEILINGS = {
    "core/dispatch.h": 35,
    "core/kernels/pointwise.h": 3,
    "core/memory/allocator.h": 18,
    "core/memory/ledger/scope.h": 42,
    "core/memory/allocator/upstream.h": 26,
}

INCLUDE = re.compile(r'^\s*#\s*include\s*["<](?:bytetape/)?([^">]+)[">]', re.MULTILINE)
SUFFIXES = {".h", ".cuh", ".cpp", ".cu"}


def read_tree(root):
    """The files of ours that each file of ours includes: {path: {path}}, relative to the root."""
    files = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        hidden = name.parts[0] == "build" or name.parts[0].startswith(".")
        if path.suffix in SUFFIXES and not hidden and path.is_file():
            files[name.as_posix()] = INCLUDE.findall(path.read_text())
    return {
        path: {name for included in names for name in (included, f"{pathlib.PurePath(path).parent}/{included}") if name in files}
        for path, names in files.items()
    }


def reached_from(source, includes):
    """All headers that a source includes, directly or not."""
    found, todo = set(), [source]
    while todo:
        for header in includes[todo.pop()] - found:
            found.add(header)
            todo.append(header)
    return found


def fan_in(includes):
    """(sources of each header, number of all sources)."""
    sources = [path for path in includes if path.endswith((".cpp", ".cu"))]
    reach = collections.defaultdict(set)
    for source in sources:
        for header in reached_from(source, includes):
            reach[header].add(source)
    return reach, len(sources)


def print_table(reach, total, most):
    print(f"{'header':44} sources of {total}")
    for header, sources in sorted(reach.items(), key=lambda item: (-len(item[1]), item[0])):
        if most > 0 or header in CEILINGS:
            ceiling = f"* at most {CEILINGS[header]} %" if header in CEILINGS else ""
            print(f"{header:44} {len(sources):4} {100 * len(sources) / total:5.1f} %  {ceiling}".rstrip())
        most -= 1


def print_why(header, includes, reach):
    if header not in includes:
        sys.exit(f"fan_in.py: {header} does not exist")
    through = {path: {path} if path.endswith((".cpp", ".cu")) else reach[path] for path in includes if header in includes[path]}
    for path, sources in sorted(through.items(), key=lambda item: (-len(item[1]), item[0])):
        others = set().union(*(other for name, other in through.items() if name != path))
        print(f"{path:44} {len(sources):4}, alone {len(sources - others):4}")


def faults(reach, total):
    for header, ceiling in CEILINGS.items():
        count = len(reach[header])
        if 100 * count > ceiling * total:
            yield f"{header} reaches {count} of {total} sources, {100 * count / total:.1f} %: more than {ceiling} % (scripts/fan_in.py --why {header})"


def self_test():
    tree = {
        "core/memory/ledger/scope.h": "",
        "core/a.h": '#include "bytetape/core/memory/ledger/scope.h"\n',
        "core/b.h": '#  include <bytetape/core/a.h>\n#include <vector>\n',
        "core/a.cpp": '#include "bytetape/core/a.h"\n',
        "core/b.cpp": '#include "bytetape/core/b.h"\n',
        "cuda/c.cu": '// #include "bytetape/core/a.h"\n#include "d.cuh"\n',
        "cuda/d.cuh": "",
        "build/e.cpp": '#include "bytetape/core/b.h"\n',
    }
    with tempfile.TemporaryDirectory() as folder:
        for path, text in tree.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        reach, total = fan_in(read_tree(pathlib.Path(folder)))
    counts = {header: len(sources) for header, sources in reach.items()}
    expected = {"core/memory/ledger/scope.h": 2, "core/a.h": 2, "core/b.h": 1, "cuda/d.cuh": 1}
    if total != 3 or counts != expected:
        sys.exit(f"self-test: expected {expected} of 3, got {counts} of {total}")
    found = list(faults(reach, total))
    if len(found) != 1 or not found[0].startswith("core/memory/ledger/scope.h reaches 2 of 3 sources, 66.7 %: more than 42 %"):
        sys.exit(f"self-test: expected a fault of core/memory/ledger/scope.h, got {found}")
    print("self-test: counts as expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--most", type=int, default=30)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--why")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    includes = read_tree(arguments.root)
    reach, total = fan_in(includes)
    if arguments.why:
        return print_why(arguments.why, includes, reach)
    print_table(reach, total, 0 if arguments.check else arguments.most)
    if arguments.check and (found := list(faults(reach, total))):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
