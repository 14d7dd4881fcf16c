#!/usr/bin/env python3
"""Writes gpt2.safetensors and gpt2.csv, for tests/training/gpt_test.cpp and tests/programs/gpt: a small GPT-2 with random
weights in Hugging Face's format, for the tokens of bpe.py, and its logits.

    pip install torch transformers && python3 tests/golden/gpt2.py

Lines of the table: "tokens", the tokens; "logits", those of all tokens, row by row; "greedy", the most likely tokens
after them, one by one.
"""
import pathlib
import shutil
import tempfile

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
TOKENS, NEW = 10, 8


def main():
    torch.manual_seed(5)
    config = transformers.GPT2Config(
        vocab_size=1200, n_positions=48, n_embd=32, n_layer=2, n_head=4, initializer_range=0.25, bos_token_id=None,
        eos_token_id=None)  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            if name.endswith("bias") or "ln_" in name:
                x.add_(0.1 * torch.randn_like(x))
        tokens = torch.randint(config.vocab_size, (1, TOKENS))
        logits = model(tokens).logits[0]
        greedy = tokens
        for _ in range(NEW):
            greedy = torch.cat([greedy, model(greedy).logits[:, -1].argmax(-1, keepdim=True)], 1)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, safe_serialization=True)
        shutil.copyfile(pathlib.Path(folder) / "model.safetensors", HERE / "gpt2.safetensors")
    lines = {
        "tokens": tokens[0].tolist(),
        "logits": [f"{v:.7g}" for v in logits.flatten().tolist()],
        "greedy": greedy[0, TOKENS:].tolist(),
    }
    with open(HERE / "gpt2.csv", "w") as table:
        for name, values in lines.items():
            print("gpt2", name, *values, sep=",", file=table)


if __name__ == "__main__":
    main()
