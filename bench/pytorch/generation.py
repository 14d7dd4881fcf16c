#!/usr/bin/env python3
"""Times greedy generation with GPT-2 124M, random weights and a static cache, as bench/generation does. Prints a JSON
line for each batch size. Modes: eager; compile (torch.compile); graph (one captured CUDA graph per token); compile_graph
(both), which is PyTorch's best.
usage: bench/pytorch/generation.py [--device cuda] [--dtype bf16] [--modes eager,compile_graph] [--new 256] BATCH...
"""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {'f32': torch.float32, 'bf16': torch.bfloat16, 'f16': torch.float16}


class Block(nn.Module):
    """A pre-norm block of GPT-2 that attends to the keys and values of its cache."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln_2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, keys, values, positions, mask):
        b, t, width = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.ln_1(x)).chunk(3, -1))
        keys.index_copy_(2, positions, k)
        values.index_copy_(2, positions, v)
        a = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate='tanh'))


class Gpt2(nn.Module):
    """Its vocabulary is padded to a multiple of 64 rows, which PyTorch runs fastest."""

    def __init__(self, layers=12, heads=12, width=768, context=1024, vocabulary=50304):
        super().__init__()
        self.vocabulary = vocabulary
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)

    def forward(self, tokens, positions, cache):
        """Returns the next token (b, 1) after `tokens` (b, t), which are at `positions` (t)."""
        x = self.wte(tokens) + self.wpe(positions)
        mask = torch.arange(cache[0][0].shape[2], device=x.device)[None, :] <= positions[:, None]
        for block, (keys, values) in zip(self.blocks, cache):
            x = block(x, keys, values, positions, mask)
        return F.linear(self.ln_f(x[:, -1:]), self.wte.weight).argmax(-1)


class Generation:
    """The static tensors of a generation, and its step for one token."""

    def __init__(self, model, batch, prompt, added, mode):
        p = next(model.parameters())
        heads, size = model.blocks[0].heads, p.shape[1] // model.blocks[0].heads
        shape = (batch, heads, prompt + added, size)
        self.model, self.prompt, self.added = model, prompt, added
        self.cache = [tuple(torch.zeros(shape, dtype=p.dtype, device=p.device) for _ in 'kv') for _ in model.blocks]
        self.prompts = torch.randint(0, model.vocabulary, (batch, prompt), device=p.device)
        self.token = torch.zeros((batch, 1), dtype=torch.long, device=p.device)
        self.position = torch.zeros(1, dtype=torch.long, device=p.device)
        self.forward = torch.compile(model, dynamic=False) if 'compile' in mode else model
        self.one = self.captured() if 'graph' in mode else self.step

    def step(self):
        self.token.copy_(self.forward(self.token, self.position, self.cache))
        self.position += 1

    def captured(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay

    def run(self, added):
        """Returns the new tokens (b, added)."""
        start = torch.arange(self.prompt, device=self.token.device)
        self.token.copy_(self.forward(self.prompts, start, self.cache))
        self.position.fill_(self.prompt)
        new = [self.token.clone()]
        for _ in range(added - 1):
            self.one()
            new.append(self.token.clone())
        return torch.cat(new, 1)


def median_seconds(f, device):
    sync = torch.cuda.synchronize if device == 'cuda' else (lambda: None)
    times = []
    for i in range(9):  # two for warming up
        start = time.perf_counter()
        f()
        sync()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    p.add_argument('--dtype', default='bf16', choices=list(DTYPES))
    p.add_argument('--modes', default='eager')
    p.add_argument('--threads', type=int)
    p.add_argument('--prompt', type=int, default=128)
    p.add_argument('--new', type=int, default=256)
    p.add_argument('batch', nargs='*', type=int, default=[1])
    a = p.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    model = Gpt2().to(a.device, DTYPES[a.dtype]).eval()
    with torch.no_grad():
        for batch in a.batch:
            for mode in a.modes.split(','):
                g = Generation(model, batch, a.prompt, a.new, mode)
                first, whole = (median_seconds(lambda n=n: g.run(n), a.device) for n in (1, a.new))
                token = (whole - first) / (a.new - 1)
                print(json.dumps({
                    'workload': 'generate_124m', 'mode': mode, 'device': a.device, 'precision': a.dtype, 'batch': batch,
                    'prompt': a.prompt, 'new': a.new, 'ms_first_token': round(first * 1e3, 3),
                    'us_per_token': round(token * 1e6, 2), 'tokens_per_s': round(batch / token, 1),
                    'torch': torch.__version__}), flush=True)
    sys.stdout.flush()


if __name__ == '__main__':
    main()
