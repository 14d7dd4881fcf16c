#!/usr/bin/env python3
"""Fails on wrong docs: quoted code that is not in its file, links to missing files, and names from headers that bytetape.h
does not include, although it should include all.

A code block whose fence names a file after the language, as in

    ```cpp examples/custom_op/main.cpp

must be in that file line by line, with the same indentation. A line "..." or "// ..." stands for any omitted lines. With a
region (```cpp examples/quickstart.cpp#quickstart) it must be all lines between two lines "// [quickstart]".

README.md and the pages of docs/ are for users, except architecture.md and decisions.md. A class that they name in code, or
a function that they call or name with its namespace, must be declared in a header that bytetape.h includes, directly or
not.

CITATION.cff must have the version of CMakeLists.txt.

usage: scripts/check_docs.py [FILE...]        checks these files, or every .md that git knows
       scripts/check_docs.py --self-test      checks the checker
"""

import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```[\w+-]+ (?P<path>[^\s#]+)(?:#(?P<region>\S+))?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)(?P<path>[^)#\s]+)")
OP_ROW = re.compile(r"\| `\w+` \|.*\| (kernel|view|composite) \|")
FOLDERS = ("core", "autograd", "nn", "optim", "data", "distributed")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]bytetape/(?P<path>[^>"]+)[>"]', re.MULTILINE)
NAMESPACE = re.compile(r"^namespace bytetape(?:::(?P<name>[\w:]+))? \{", re.MULTILINE)
# At the start of a line, so neither members nor nested names match.
CLASS = re.compile(r"^(?:struct|class|enum class) (?P<name>\w+)[^;\n]*\{", re.MULTILINE)
FUNCTION = re.compile(r"^(?!using|return)[\w:][\w:<>,&* ]*?[ &*](?P<name>\w+)\(", re.MULTILINE)
GAP = re.compile(r"^\s*(//|#)?\s*\.\.\.$")


def pieces(code):
    """The runs of lines between gaps, without blank lines at their ends."""
    piece = []
    for line in code.splitlines() + ["..."]:
        if not GAP.match(line):
            piece.append(line.rstrip())
        elif any(piece):
            yield textwrap.dedent("\n".join(piece)).strip("\n").split("\n")
            piece = []
        else:
            piece = []


def find(piece, lines, start):
    """The index after `piece` in `lines`, searched from `start` on; None if it is missing."""
    for at in range(start, len(lines) - len(piece) + 1):
        window = "\n".join(lines[at : at + len(piece)])
        if textwrap.dedent(window).split("\n") == piece:
            return at + len(piece)
    return None


def quote_fault(code, text):
    lines, at = [line.rstrip() for line in text.splitlines()], 0
    for piece in pieces(code):
        at = find(piece, lines, at)
        if at is None:
            return piece[0]
    return None


def region_fault(code, region, text):
    """The fault of a quote of a whole region, or None."""
    parts = re.split(rf"^\s*(?://|#) \[{re.escape(region)}\]\n", text, flags=re.MULTILINE)
    if len(parts) != 3:
        return f"has {len(parts) - 1} markers [{region}], not 2"
    if textwrap.dedent(parts[1]).strip() != textwrap.dedent(code).strip():
        return f"differs from the quote between its markers [{region}]"
    return None


def long_lines(text):
    """The numbers of lines of prose with more than 120 characters. Code, addresses of links, and the table of docs/ops.md,
    which a test writes, may be longer."""
    prose = CODE.sub(lambda m: "\n" * m[0].count("\n") if m[0].startswith("```") else m[0], text)
    return [n for n, line in enumerate(prose.splitlines(), 1) if len(re.sub(r"\]\([^)]*\)", "]()", line)) > 120 and not OP_ROW.match(line)]


def faults(doc):
    text = doc.read_text()
    for number in long_lines(text):
        yield f"{doc}:{number}: has more than 120 characters"
    for block in BLOCK.finditer(text):
        number = text.count("\n", 0, block.start()) + 1
        source = ROOT / block["path"]
        if not source.is_file():
            yield f"{doc}:{number}: quotes {block['path']}, which does not exist"
        elif block["region"]:
            if what := region_fault(block["code"], block["region"], source.read_text()):
                yield f"{doc}:{number}: {block['path']} {what}"
        elif first := quote_fault(block["code"], source.read_text()):
            yield f"{doc}:{number}: {block['path']} does not have the quoted lines from '{first.strip()}'"
    for link in LINK.finditer(CODE.sub(lambda m: "\n" * m[0].count("\n"), text)):
        if not (doc.parent / link["path"]).exists():
            yield f"{doc}:{text.count(chr(10), 0, link.start()) + 1}: links to {link['path']}, which does not exist"


def declared(header):
    """The patterns with which docs use a header's declarations, by name."""
    namespace = (NAMESPACE.search(header) or {"name": None})["name"]
    patterns = {match["name"]: rf"\b{match['name']}\b" for match in CLASS.finditer(header)}
    for match in FUNCTION.finditer(header):
        name = match["name"]
        patterns[name] = rf"\b{namespace}::{name}\b" if namespace else rf"(?<![\w.>:]){name}\("
    return patterns


def left_out(docs, headers, root="bytetape.h"):
    """Each name in `docs` that is declared only in headers that `root` does not include. `headers` are texts by path."""
    reached, waiting = set(), [root]
    while waiting:
        path = waiting.pop()
        if path in reached or path not in headers:
            continue
        reached.add(path)
        waiting += [match["path"] for match in INCLUDE.finditer(headers[path])]
    code = "\n".join(match[0] for match in CODE.finditer(docs))
    known = {name for path in reached for name in declared(headers[path])}
    for path in sorted(set(headers) - reached):
        for name, pattern in sorted(declared(headers[path]).items()):
            if name not in known and re.search(pattern, code):
                yield f"{path}: declares {name}, which the docs name, but {root} does not include it"


def headers_left_out():
    paths = [ROOT / "bytetape.h"] + [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.h")]
    headers = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    of_contributors = ("architecture.md", "decisions.md")
    pages = [ROOT / "README.md"] + [page for page in (ROOT / "docs").glob("*.md") if page.name not in of_contributors]
    # core/cpu and core/memory/text are not installed, and the namespace `elementwise` is how ops are written.
    private = ("core/cpu/", "core/memory/text/", "autograd/ops/elementwise.h")
    installed = {path: text for path, text in headers.items() if not path.startswith(private)}
    return left_out("\n".join(page.read_text() for page in pages), installed)


def version_fault(cmake, citation):
    """The fault of CITATION.cff's version, or None."""
    expected = re.search(r"^project\(\w+ VERSION ([\d.]+)", cmake, re.MULTILINE)
    found = re.search(r"^version: (\S+)$", citation, re.MULTILINE)
    if not expected or not found or expected[1] != found[1]:
        return f"CITATION.cff: has version {found and found[1]}, and CMakeLists.txt {expected and expected[1]}"
    return None


def self_test():
    text = "struct A {\n  int f() {\n    return 1;\n  }\n\n  int g();\n};\n"
    cases = [
        ("int f() {\n  return 1;\n}\n", True),  # indented alike
        ("int f() {\n// ...\nint g();\n", True),
        ("int g();\n...\nint f() {\n", False),  # out of order
        ("int f() {\n  return 2;\n}\n", False),
        ("int f() {\nreturn 1;\n}\n", False),  # indented otherwise
        ("int h();\n", False),
    ]
    for code, there in cases:
        if (quote_fault(code, text) is None) != there:
            sys.exit(f"self-test: expected {'nothing' if there else 'a fault'} of:\n{code}")
    marked = "// [a]\nint x;\n// [a]\n  // [b]\n  int y;\n"
    region_cases = [("int x;\n", "a", True), ("int y;\n", "a", False), ("int y;\n", "b", False), ("", "c", False)]
    for code, region, there in region_cases:
        if (region_fault(code, region, marked) is None) != there:
            sys.exit(f"self-test: expected {'nothing' if there else 'a fault'} of region {region}:\n{code}")
    headers = {
        "bytetape.h": '#include "bytetape/a.h"\n',
        "a.h": '#include "bytetape/b.h"\nnamespace bytetape {\nint f(int x);\n}\n',
        "b.h": "namespace bytetape {\nstruct B {\n  int g();\n};\n}\n",
        "c.h": "namespace bytetape::memory {\nint f(double x);\nint h();\nclass C final {\n};\n}\n",
        "d.h": "namespace bytetape {\nint k();\n}\n",
    }
    name_cases = [
        ("`f(x)`, `B` and `memory::f`", []),
        ("`memory::h`", ["h"]),
        ("`h()` of another, and C", []),
        ("```cpp\nC c;\nx.k(), ns::k();\n```\n", ["C"]),
        ("`y = k(1)`", ["k"]),
    ]
    for text, names in name_cases:
        if [fault.split()[2].rstrip(",") for fault in left_out(text, headers)] != names:
            sys.exit(f"self-test: expected {names} of:\n{text}")
    if long_lines("a " * 60 + "\n" + "a " * 60 + "b\n```\n" + "c" * 130 + "\n```\n[d](" + "e" * 120 + ")\n") != [2]:
        sys.exit("self-test: expected the second line alone to be too long")
    version_cases = [("0.1.0", "0.1.0", True), ("0.1.0", "0.1", False), ("0.1.0", "0.1.0.1", False), ("", "0.1.0", False)]
    for project, cited, there in version_cases:
        cmake = f"# VERSION 9\nproject(bytetape VERSION {project} LANGUAGES CXX)\n"
        if (version_fault(cmake, f"cff-version: 1.2.0\nversion: {cited}\n") is None) != there:
            sys.exit(f"self-test: expected {'nothing' if there else 'a fault'} of the versions '{project}' and '{cited}'")
    print(f"self-test: {1 + len(version_cases) + len(cases) + len(region_cases) + len(name_cases)} cases as expected")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        docs = [pathlib.Path(name) for name in sys.argv[1:]]
    else:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
        names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
        docs = [ROOT / name for name in names]
    found = [fault for doc in docs for fault in faults(doc)] + list(headers_left_out())
    if fault := version_fault((ROOT / "CMakeLists.txt").read_text(), (ROOT / "CITATION.cff").read_text()):
        found.append(fault)
    print("\n".join(found) or f"{len(docs)} documents quote code that is there")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
