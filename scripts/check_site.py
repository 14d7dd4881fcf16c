#!/usr/bin/env python3
"""Checks the docs site that scripts/docs_site wrote: links and anchors lead somewhere, and no page shows a command of
Doxygen or a tag as text.

usage: scripts/check_site.py DIR            checks the pages in DIR
       scripts/check_site.py --self-test    checks this script
"""

import html
import pathlib
import posixpath
import re
import sys
import tempfile
import urllib.parse

ID = re.compile(r'\b(?:id|name)="([^"]+)"')
LINK = re.compile(r'\b(?:href|src)="([^"]+)"')
ELSEWHERE = re.compile(r"\w+:")
CODE = re.compile(r'<(pre|code|script|style|tt)\b.*?</\1>|<div class="(?:line|fragment)">.*?</div>', re.DOTALL)
RAW = re.compile(r"(?<!\w)[@\\](?:page|(?:sub)*section|subpage|ref|anchor)\b|</?(?:tt|code|b|em)>")
# Doxygen links to a list of nested classes also if it shows none of them.
OF_DOXYGEN = {"#nested-classes"}


def raw_texts(text):
    """What a page shows outside of code and should not."""
    shown = re.sub(r"<[^>]*>", "", CODE.sub("", text))
    return sorted({match[0] for match in RAW.finditer(html.unescape(shown))})


def dead_links(page, text, ids):
    """The links of a page to a file or an anchor that does not exist. `ids` are the anchors by file, None if unknown."""
    for link in sorted({html.unescape(link) for link in LINK.findall(text)} - OF_DOXYGEN):
        if ELSEWHERE.match(link):
            continue
        file, _, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), urllib.parse.unquote(file))) if file else page
        if target not in ids or (anchor and ids[target] is not None and urllib.parse.unquote(anchor) not in ids[target]):
            yield link


def faults(site):
    """One line for each fault of the pages in a folder."""
    files = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    texts = {name: path.read_text(errors="replace") for name, path in files.items() if name.endswith(".html")}
    ids = {name: set(ID.findall(texts[name])) if name in texts else None for name in files}
    found = []
    for name, text in sorted(texts.items()):
        found += [f"{name}: the link '{link}' leads nowhere" for link in dead_links(name, text, ids)]
        found += [f"{name}: shows '{raw}' as text" for raw in raw_texts(text)]
    return found


def self_test():
    pages = {
        "index.html": '<h1 id="a">A</h1> <a href="#a">here</a> <a href="b/c.html#d%20e">c</a> <a href="https://x.org/#y">x</a>'
        '<img src="p.png"><code>@ref x</code> <div class="line">&lt;tt&gt;</div> a &lt; b, me@section.org',
        "b/c.html": '<a name="d e"></a><a href="../index.html">back</a>',
        "p.png": "",
    }
    broken = {
        "index.html": pages["index.html"] + '<a href="#z">z</a> <a href="gone.html">g</a> @subsection q Q <h2>&lt;tt&gt;f</h2>',
    }
    expected = [
        "index.html: the link '#z' leads nowhere",
        "index.html: the link 'gone.html' leads nowhere",
        "index.html: shows '<tt>' as text",
        "index.html: shows '@subsection' as text",
    ]
    for case, wanted in (({}, []), (broken, expected)):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (pages | case).items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            found = faults(pathlib.Path(folder))
            if found != wanted:
                sys.exit(f"self-test: expected {wanted}, found {found}")
    print("self-test: all as expected")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    found = faults(pathlib.Path(sys.argv[1]))
    if found:
        sys.exit("\n".join(found[:50] + [f"{len(found)} faults in {sys.argv[1]}"]))


if __name__ == "__main__":
    main()
