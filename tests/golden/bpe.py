#!/usr/bin/env python3
"""Writes bpe/vocab.json, bpe/merges.txt and bpe.csv.gz, for tests/data/bpe_test.cpp: a byte-level BPE of the project's
pages, in the files of Hugging Face's GPT-2, and the tokens that Hugging Face's tokenizer gives to 10,000 random strings.
A BPE that is there is kept.

    pip install tokenizers && python3 tests/golden/bpe.py

A line of the table: a string's UTF-8 bytes in hexadecimal, and its tokens.
"""
import gzip
import pathlib
import random
import unicodedata

import tokenizers

HERE = pathlib.Path(__file__).resolve().parent
PIECES = ["'s", "'ll", " 've", "'D", "n't", "  ", "\t", "\n", "\r\n", " \n ", "\u00a0", "\u2003", "\u3000", "\u0085",
          "\u180e", "\x1c", "12", " 3.5", "x2", "...", " --", "#!", "<|endoftext|>", "naïve", " façade", "Ærø", "ﬁ", "ß",
          "Ⅷ", "½", "٣", "中文", " 日本語", "한국", "🙂", " 👩‍💻", "🇩🇰", "é", "ñ", "\u0301", "\u200d", "א", "עברית",
          "हिन्दी", "\x00", "\x7f"]  # fmt: skip


def random_string(rng, words, letters):
    parts = []
    for _ in range(rng.randrange(12)):
        kind = rng.random()
        if kind < 0.4:
            parts.append(rng.choice(["", " ", " ", "\n"]) + rng.choice(words))
        elif kind < 0.8:
            parts.append(rng.choice(PIECES))
        else:
            parts.append("".join(rng.choice(letters) for _ in range(rng.randrange(1, 5))))
    return "".join(parts)


def main():
    pages = sorted(HERE.parent.parent.glob("docs/*.md"))
    files = [str(HERE / "bpe" / name) for name in ("vocab.json", "merges.txt")]
    if all(pathlib.Path(f).exists() for f in files):
        bpe = tokenizers.ByteLevelBPETokenizer(*files, add_prefix_space=False)
    else:
        bpe = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
        bpe.train([str(p) for p in pages], vocab_size=1200, min_frequency=2, show_progress=False)
        bpe.save_model(str(HERE / "bpe"))
    rng = random.Random(7)
    words = sorted(set(" ".join(p.read_text() for p in pages).split()))
    # Characters that Unicode has had for long, so that all libraries know them.
    letters = [chr(c) for c in range(0x20, 0x1FFFF) if unicodedata.ucd_3_2_0.category(chr(c))[0] in "LNPSZM"]
    lines = [f"# made by tests/golden/bpe.py with tokenizers {tokenizers.__version__}"]
    for _ in range(10000):
        text = random_string(rng, words, letters)
        tokens = bpe.encode(text).ids
        lines.append(",".join(["x" + text.encode().hex()] + [str(t) for t in tokens]))
    (HERE / "bpe.csv.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


main()
