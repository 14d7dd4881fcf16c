#!/usr/bin/env python3
"""Writes the pages of the docs site (scripts/docs_site), as Doxygen reads them: README.md, every page that it links to,
directly or not, a page for each op, and a page for each source that a page links to.

An op's page has its signatures and their comments, from the headers, and its row of docs/ops.md.

usage: scripts/docs_pages.py DIR            writes the pages into DIR
       scripts/docs_pages.py --self-test    checks this script
"""

import os
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAIN, OPS = "README.md", "docs/ops.md"
# Pages with a table of pages, which the navigation follows.
INDEXES = (MAIN, "bench/README.md")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<address>[^)\s]+)\)")
ERROR = re.compile(r"\b(?:Shape|DType|Device|Value|Autograd|Capture|Distributed|File)Error\b|\bNotImplemented\b")
HEADING = re.compile(r"^(?P<level>#{1,4}) (?P<title>.+)$", re.MULTILINE)
OP_ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| (?P<arguments>[^|]*) \| (?P<kind>\w+) \| (?P<dtypes>[^|]*) \| (?P<devices>[^|]*) \| "
    r"(?P<autocast>\w+) \| (?P<differentiable>\w+) \|$",
    re.MULTILINE,
)
# Languages that Doxygen colours, by their names in Markdown.
LANGUAGES = {"cpp": "cpp", "python": "py", "h": "cpp", "py": "py"}
# Headers with a page of Doxygen's. docs/Doxyfile has the same folders.
REFERENCE = ("core/", "autograd/", "nn/", "optim/", "data/", "distributed/")
NOT_IN_REFERENCE = ("core/cpu/", "core/memory/text/")

# What the columns of docs/ops.md stand for. An op with another entry is an error.
KINDS = {
    "kernel": "runs a kernel",
    "view": "shares the memory of its input",
    "composite": "calls other ops",
}
DTYPES = {
    "floating": "f64, f32, bf16, f16",
    "numbers": "f64, f32, bf16, f16, i64, i32, u8",
    "all": "f64, f32, bf16, f16, i64, i32, u8, bool",
}
AUTOCAST = {
    "low": "computes in the 16-bit dtype",
    "f32": "computes in f32",
    "widest": "computes in the widest floating dtype of its tensors",
    "keep": "computes in the dtype of its input",
}
DIFFERENTIABLE = {"twice": "yes, to any order", "once": "yes, once", "no": "no"}

# The groups of ops in the navigation, with their headers.
GROUPS = {
    "Arithmetic": ["autograd/ops/arithmetic.h"],
    "Pointwise functions": ["autograd/ops/pointwise.h"],
    "Comparisons": ["autograd/ops/compare.h"],
    "Reductions and scans": ["autograd/ops/reduce.h", "autograd/ops/scan.h"],
    "Matrix products": ["autograd/ops/matmul.h", "autograd/ops/einsum.h"],
    "Views": ["autograd/ops/view.h"],
    "Copies and layout": ["autograd/ops/copy.h", "autograd/ops/concat.h", "autograd/ops/rearrange.h", "autograd/ops/pad.h"],
    "Indexing and sorting": [
        "autograd/ops/index.h",
        "autograd/ops/indexing.h",
        "autograd/ops/gather.h",
        "autograd/ops/sort.h",
    ],
    "Convolution, pooling and resizing": [
        "autograd/ops/images/conv.h",
        "autograd/ops/images/conv_transpose.h",
        "autograd/ops/images/pool.h",
        "autograd/ops/images/interpolate.h",
    ],
    "Normalisation": [
        "autograd/ops/norm/batch_norm.h",
        "autograd/ops/norm/group_norm.h",
        "autograd/ops/norm/layer_norm.h",
        "autograd/ops/norm/rms_norm.h",
    ],
    "Attention": ["autograd/ops/attention/attention.h", "autograd/ops/attention/cached_attention.h"],
    "Recurrent cells": ["autograd/ops/recurrent.h"],
    "Softmax": ["autograd/ops/softmax.h"],
    "Losses": ["autograd/ops/loss.h", "autograd/ops/elementwise_loss.h", "autograd/ops/linear_cross_entropy.h"],
    "Dropout and random numbers": ["autograd/ops/dropout.h", "autograd/ops/random.h"],
    "Collectives": ["distributed/collectives.h"],
}


def label(path):
    """The id of a file's page."""
    return "page_" + re.sub(r"\W", "_", re.sub(r"\.(md|png)$", "", str(path))).strip("_").lower()


def slug(title):
    """The anchor that GitHub gives a heading."""
    title = re.sub(r"[^\w\s-]", "", LINK.sub(r"\g<text>", title).lower())
    return title.strip().replace(" ", "-")


def op_label(name):
    return f"op_{name}"


def is_in_reference(path):
    path = str(path)
    return path == "bytetape.h" or (path.endswith(".h") and path.startswith(REFERENCE) and not path.startswith(NOT_IN_REFERENCE))


class Pages:
    """The pages of Markdown that can be reached from README.md, and the sources that they link to."""

    def __init__(self, root):
        self.texts, self.sources, self.pictures, self.in_navigation = {}, set(), set(), {MAIN}
        waiting = [MAIN]
        while waiting:
            path = waiting.pop(0)
            if path in self.texts:
                continue
            self.texts[path] = (root / path).read_text()
            for target in self.targets(path):
                if target.endswith(".md"):
                    waiting.append(target)
                elif target.endswith(".png"):
                    self.pictures.add(target)
                elif not is_in_reference(target):
                    self.sources.add(target)

    def targets(self, path):
        prose = SPAN.sub("", FENCE.sub("", self.texts[path]))
        for link in LINK.finditer(prose):
            if not re.match(r"https?:|#", link["address"]):
                yield self.resolved(path, link["address"].split("#")[0])

    @staticmethod
    def resolved(page, address):
        return os.path.normpath(pathlib.PurePosixPath(page).parent / address)

    def link(self, page, match):
        """A link or picture of `page` in Doxygen's notation. Links that begin a row of an index make the navigation."""
        text, address = " ".join(match["text"].split()), match["address"]  # Doxygen's @ref ends with its line
        if match["image"]:
            return f"![{text}]({label(self.resolved(page, address))}.png)"
        if re.match(r"https?:", address):
            return match[0]
        file, _, anchor = address.partition("#")
        target = self.resolved(page, file) if file else page
        if anchor:
            return f"[{text}](@ref {label(target)}-{anchor})"
        if is_in_reference(target):
            return f"[{text}](@ref {target})"
        if page in INDEXES and match.string.endswith("\n| ", 0, match.start()):
            self.in_navigation.add(target)
            return f'@subpage {label(target)} "{text}"'
        return f"[{text}](@ref {label(target)})"

    def converted(self, path):
        """A page as Doxygen reads it."""
        held = []

        def hold(text):
            held.append(text)
            return f"\0{len(held) - 1}\0"

        def fence(match):
            language = LANGUAGES.get(match["language"], "unparsed")
            return hold(f"{match['indent']}```{{.{language}}}\n{match['code']}{match['indent']}```")

        # Doxygen reads `a' b` as a quotation.
        def span(match):
            return hold(f"`{match[0]}`" if "'" in match[0] else match[0])

        def restored(text):
            while "\0" in text:
                text = re.sub("\0(\\d+)\0", lambda m: held[int(m[1])], text)
            return text

        seen = {}

        def heading(match):
            shown = restored(match["title"]).replace("`", "")  # Doxygen shows the tags of code in a heading
            name = slug(shown)
            seen[name] = seen.get(name, -1) + 1
            anchor = f"{name}-{seen[name]}" if seen[name] else name
            if match["level"] == "#":
                title = f"# {shown} {{#{label(path)}}}"
                return title + "\n\n[TOC]" if path != MAIN else title
            return f"{match['level']} {shown} {{#{label(path)}-{anchor}}}"

        text = FENCE.sub(fence, self.texts[path])
        # A link's text is plain, because Doxygen makes links in code itself.
        text = LINK.sub(lambda m: m[0].replace("`", "") if not m["image"] else m[0], text)
        text = SPAN.sub(span, text)
        text = LINK.sub(lambda m: self.link(path, m), text)
        text = HEADING.sub(heading, text)
        return restored(text)


def source_page(root, path):
    """A page that shows a file, or the names in a folder."""
    title = f"# {path} {{#{label(path)}}}\n\n"
    file = root / path
    if file.is_dir():
        names = sorted(p.relative_to(file).as_posix() for p in file.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        return title + f"The files in `{path}`:\n\n" + "".join(f"- `{name}`\n" for name in names)
    language = LANGUAGES.get(file.suffix[1:], "unparsed")
    return title + f"~~~~~{{.{language}}}\n{file.read_text().rstrip()}\n~~~~~\n"


def declarations(header):
    """The functions that a header declares, each as (name, signature, comment, group): the lines of its comment, and
    (name, lines) of the group or the file that it is in."""
    found, comment, group, file_comment = [], [], None, None
    lines = iter(header.splitlines())
    for line in lines:
        text = line.strip()
        if text.startswith("///"):
            comment.append(text.removeprefix("///").removeprefix(" "))
            if comment[-1] == "@{":
                group, comment = (comment[0].removeprefix("\\name "), comment[1:-1]), []
            elif comment[-1] == "@}":
                group, comment = None, []
            continue
        if not text:
            if comment and comment[0] == "\\file":
                file_comment = ("rules for all functions of the header", comment[1:])
            comment = []
            continue
        if text.startswith(("#", "//", "namespace bytetape {", "namespace bytetape::dist {", "}  // namespace")):
            continue
        if text == "namespace detail {":
            while not next(lines).startswith("}  // namespace detail"):
                pass
            continue
        declaration = [text]
        while not declaration[-1].endswith((";", "{", "}")):
            declaration.append(next(lines).strip())
        is_body = "{" in re.sub(r"\{\}", "", " ".join(declaration)) and not declaration[-1].endswith((";", "}"))
        signature = re.sub(r"\s*\{.*$", "", re.sub(r"= \{\}", "= \0", " ".join(declaration))).replace("\0", "{}").rstrip("; ")
        if is_body:  # ends at a line with a brace at the same indentation
            indent = len(line) - len(line.lstrip())
            while not next(lines).startswith(" " * indent + "}"):
                pass
        function = re.match(r"(?:inline |constexpr |\[\[nodiscard\]\] )*(?P<rest>[\w:<>,&* ]+?[ &*](?P<name>\w+)\(.*)", signature)
        is_type = re.match(r"(struct|class|enum|using|template|namespace)\b", signature)
        if function and not is_type and "= delete" not in signature:
            found.append((function["name"], function["rest"], comment, group or file_comment))
        comment = []
    return found


def wrapped(signature, width=100):
    """A signature over several lines, with the arguments below each other."""
    if len(signature) <= width:
        return signature
    start = signature.index("(") + 1
    arguments, depth, at = [], 0, start
    for i in range(start, len(signature)):
        depth += {"(": 1, "{": 1, "<": 1, ")": -1, "}": -1, ">": -1}.get(signature[i], 0)
        if signature[i] == "," and depth == 0:
            arguments.append(signature[at : i + 1].strip())
            at = i + 1
    arguments.append(signature[at:].strip())
    return signature[:start] + ("\n" + " " * start).join(arguments)


def described(lines):
    """A comment as Markdown: each error is an item of a list."""
    text, errors, paragraph = [], [], None
    for line in (line.replace(" -> ", " → ") for line in lines):
        if line.startswith("Throws"):
            errors.append(line)
            paragraph = errors
        elif paragraph is errors and line and errors:
            errors[-1] += " " + line
        else:
            paragraph = text
            text.append(line)
    body = "\n".join(text).strip()
    items = "\n".join(f"- {error}" for error in errors)
    return ERROR.sub(r"[\g<0>](@ref bytetape::\g<0>)", "\n\n".join(part for part in (body, items) if part))


def dtypes_of(column):
    return DTYPES.get(column) or ", ".join(column.split())


def op_page(row, signatures, header, known):
    """The page of an op, from its row of docs/ops.md and its declarations."""
    name = row["name"]
    parts = [f"# {name} {{#{op_label(name)}}}"]
    bases = [name.removesuffix("_")] if name.endswith("_") else []
    for signature, comment, _ in signatures:
        parts.append(f"```{{.cpp}}\n{wrapped(signature)}\n```")
        if comment:
            parts.append(described(comment))
    if bases and bases[0] in known:
        parts.append(f"The in-place form of [{bases[0]}](@ref {op_label(bases[0])}). It writes the result into the first tensor.")
    elif name + "_" in known:
        parts.append(f"[{name}_](@ref {op_label(name + '_')}) is the in-place form.")
    facts = [
        ("arguments", row["arguments"]),
        ("devices", row["devices"]),
        ("dtypes", dtypes_of(row["dtypes"])),
        ("Autocast", f"`{row['autocast']}`: {AUTOCAST[row['autocast']]}"),
        ("differentiable", DIFFERENTIABLE[row["differentiable"]]),
        ("kind", f"`{row['kind']}`: {KINDS[row['kind']]}"),
        ("header", f"[{header}](@ref {header})"),
    ]
    parts.append("| property | value |\n|---|---|\n" + "\n".join(f"| {key} | {value} |" for key, value in facts))
    parts.append(f"[Ops](@ref {label('docs/ops.md')}) explains the properties.")
    group = signatures[0][2]
    if group and any(group[1]):
        title = group[0][0].upper() + group[0][1:]
        parts.append(f"## {title} {{#{op_label(name)}-group}}\n\n{described(group[1])}")
    return "\n\n".join(parts) + "\n"


def op_pages(table, headers):
    """The pages of all ops and of their groups, by file name, and the names of each group. `headers` are texts by path."""
    rows = {row["name"]: row for row in OP_ROW.finditer(table)}
    found = {name: [] for name in rows}
    for group, paths in GROUPS.items():
        for path in paths:
            for name, signature, comment, its_group in declarations(headers.get(path, "")):
                if name in found:
                    found[name].append((group, path, (signature, comment, its_group)))
    missing = [name for name, places in found.items() if not places]
    if missing:
        sys.exit(f"no header of GROUPS declares {', '.join(missing)}: add the header to a group")
    pages, members = {}, {group: [] for group in GROUPS}
    for name, places in found.items():
        pages[f"{op_label(name)}.md"] = op_page(rows[name], [place[2] for place in places], places[0][1], rows)
        members[places[0][0]].append((name, places[0][2]))
    for group, ops in members.items():
        lines = [f"# {group} {{#{label('ops ' + group)}}}", "| op | summary |\n|---|---|"]
        for name, (_, comment, _) in ops:
            brief = re.match(r".*?[.:](?= |$)|.*", " ".join(comment))[0].replace("|", "\\|").rstrip(":.")
            if not comment and name.endswith("_") and name[:-1] in rows:
                brief = f"{name[:-1]} in place"
            lines[-1] += f'\n| @subpage {op_label(name)} "{name}" | {brief} |'
        pages[f"{label('ops ' + group)}.md"] = "\n\n".join(lines) + "\n"
    return pages, {group: [name for name, _ in ops] for group, ops in members.items()}


def with_links_to_ops(page, members):
    """docs/ops.md with links to the ops' pages, and a table of the groups before the table of ops."""
    groups = ["| group | ops |\n|---|---|"]
    for group, names in members.items():
        shown = [name for name in names if name.removesuffix("_") == name or name.removesuffix("_") not in names]
        links = ", ".join(f"[{name}](@ref {op_label(name)})" for name in shown)
        groups.append(f'| @subpage {label("ops " + group)} "{group}" | {links} |')
    page = OP_ROW.sub(lambda m: m[0].replace(f"`{m['name']}`", f"[{m['name']}](@ref {op_label(m['name'])})", 1), page)
    return page.replace("| op | arguments |", "\n".join(groups) + "\n\nAll ops:\n\n| op | arguments |", 1)


def write(directory):
    pages = Pages(ROOT)
    headers = {path: (ROOT / path).read_text() for paths in GROUPS.values() for path in paths}
    files, members = op_pages((ROOT / OPS).read_text(), headers)
    for path in pages.texts:
        files[f"{label(path)}.md"] = pages.converted(path)
    files[f"{label(OPS)}.md"] = with_links_to_ops(files[f"{label(OPS)}.md"], members)
    others = sorted(pages.sources | (set(pages.texts) - pages.in_navigation))
    for path in pages.sources:
        files[f"{label(path)}.md"] = source_page(ROOT, path)
    index = "".join(f'- @subpage {label(path)} "{path}"\n' for path in others)
    files["page_others.md"] = f"# Other files {{#page_others}}\n\nFiles that the pages link to:\n\n{index}"
    files[f"{label(MAIN)}.md"] += '\n@subpage page_others "Other files" that the pages link to.\n'
    directory.mkdir(parents=True, exist_ok=True)
    for old in [*directory.glob("*.md"), *directory.glob("*.png")]:
        old.unlink()
    for path in pages.pictures:
        (directory / f"{label(path)}.png").write_bytes((ROOT / path).read_bytes())
    for name, text in files.items():
        (directory / name).write_text(text)


def self_test():
    failed = []

    def expect(what, got, expected):
        if got != expected:
            failed.append(f"self-test: {what}: expected\n{expected}\ngot\n{got}")

    header = (
        "namespace bytetape {\n\n/// \\name Pointwise\n/// Of floats.\n/// Throws DTypeError if x is\n/// not.\n/// @{\n\n"
        "/// max(x, 0). And more.\nTensor relu(const Tensor& x,\n            double y = 1);\nTensor relu_(const Tensor& x);\n"
        "inline Tensor twice(const Tensor& x) { return x; }\n/// @}\n\n/// A type.\nstruct Params {\n  int f(int x);\n};\n"
        "/// (n) -> (m).\nTensor conv(const Tensor& x, const Params& p = {});\n"
        "template <class T>\nTensor var(T x)\n= delete;\nTensor var(const Tensor& x);\n"
        "namespace detail {\nTensor inner(const Tensor& x);\n}  // namespace detail\n}  // namespace bytetape\n"
    )
    found = {name: (signature, comment, group and group[0]) for name, signature, comment, group in declarations(header)}
    expect("the names", list(found), ["relu", "relu_", "twice", "conv", "var"])
    expect("relu", found["relu"], ("Tensor relu(const Tensor& x, double y = 1)", ["max(x, 0). And more."], "Pointwise"))
    expect("twice", found["twice"], ("Tensor twice(const Tensor& x)", [], "Pointwise"))
    expect("conv", found["conv"], ("Tensor conv(const Tensor& x, const Params& p = {})", ["(n) -> (m)."], None))
    expect("lines of a signature", wrapped("Tensor f(A<b, c> a, int b)", 10), "Tensor f(A<b, c> a,\n         int b)")
    expect("a comment", described(["(n) -> (m).", "Throws X if", "it fails."]), "(n) → (m).\n\n- Throws X if it fails.")
    expect("an error", described(["Throws FileError."]), "- Throws [FileError](@ref bytetape::FileError).")

    row = "| `{}` | x | kernel | floating | CPU, GPU | keep | twice |\n"
    table = "Ops\n\n| op | arguments | kind |\n|---|---|---|\n" + row.format("relu") + row.format("relu_")
    files, members = op_pages(table, {GROUPS["Arithmetic"][0]: header})
    expect("the ops of a group", members["Arithmetic"], ["relu", "relu_"])
    for text in ("Tensor relu(const Tensor& x, double y = 1)", "[relu_](@ref op_relu_) is", "| dtypes | f64, f32, bf16, f16 |",
                 "## Pointwise {#op_relu-group}\n\nOf floats.\n\n- Throws"):
        expect(f"the page of relu with {text}", text in files["op_relu.md"], True)
    expect("the in-place form", "in-place form of [relu](@ref op_relu)" in files["op_relu_.md"], True)
    expect("the group's page", '"relu_" | relu in place |' in files["page_ops_arithmetic.md"], True)
    linked = with_links_to_ops(table, members)
    expect("a link to an op", "| [relu](@ref op_relu) | x |" in linked, True)

    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for path, text in {
            "README.md": "# A\n\n![p](docs/images/p.png)\n[c](core/a.h), [t](t.txt)\n\n| [B](docs/b.md) | x |\n| [C](bench/README.md) | x |\n",
            "bench/README.md": "# C\n\n| [D](d.md) | x |\n",
            "bench/d.md": "# D\n",
            "docs/b.md": "# B\n\n## A `c` d!\n\n`it's` [up](../README.md#a), [over\nhere](#a-c-d)\n\n```sh\n# [x](y.md)\n```\n",
            "core/a.h": "",
            "t.txt": "text\n",
        }.items():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text(text)
        pages = Pages(root)
        expect("the pages", list(pages.texts), ["README.md", "docs/b.md", "bench/README.md", "bench/d.md"])
        expect("the sources", pages.sources, {"t.txt"})
        expect("the pictures", pages.pictures, {"docs/images/p.png"})
        expect("README", pages.converted("README.md"),
               "# A {#page_readme}\n\n![p](page_docs_images_p.png)\n[c](@ref core/a.h), [t](@ref page_t_txt)\n\n"
               '| @subpage page_docs_b "B" | x |\n| @subpage page_bench_readme "C" | x |\n')
        expect("an index", pages.converted("bench/README.md"),
               '# C {#page_bench_readme}\n\n[TOC]\n\n| @subpage page_bench_d "D" | x |\n')
        expect("a page", pages.converted("docs/b.md"),
               "# B {#page_docs_b}\n\n[TOC]\n\n## A c d! {#page_docs_b-a-c-d}\n\n``it's`` [up](@ref page_readme-a), "
               "[over here](@ref page_docs_b-a-c-d)\n\n```{.unparsed}\n# [x](y.md)\n```\n")
        expect("a source", source_page(root, "t.txt"), "# t.txt {#page_t_txt}\n\n~~~~~{.unparsed}\ntext\n~~~~~\n")
    if failed:
        sys.exit("\n".join(failed))
    print("self-test: all as expected")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    write(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
