#!/usr/bin/env python3
"""Times attention, embeddings and recurrent layers alone, as bench/blocks does. Prints a JSON line for each. Attention
runs with cuDNN, with deterministic algorithms in backward, and with FlashAttention.
usage: bench/pytorch/blocks.py [--device cuda] [--batch 16] [--rows 64]
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def measure(part, flop, f, device, captures=True):
    """Prints the median of seven bursts, of a captured CUDA graph if `captures`."""
    on_gpu = device == 'cuda'
    sync, burst = (torch.cuda.synchronize, 20) if on_gpu else ((lambda: None), 1)
    for _ in range(3):
        f()
    sync()
    run = f
    if on_gpu and captures:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            f()
        run = graph.replay
    times = []
    for _ in range(8):
        start = time.perf_counter()
        for _ in range(burst):
            run()
        sync()
        times.append((time.perf_counter() - start) / burst)
    seconds = statistics.median(times[1:])
    line = {'part': part, 'us': round(seconds * 1e6, 2), 'torch': torch.__version__}
    if flop:
        line['tflops'] = round(flop / seconds / 1e12, 1)
    print(json.dumps(line), flush=True)


def attention(batch, heads, device):
    tokens, width = 1024, 2048
    q, k, v, gy = (torch.randn(batch, tokens, heads, width // heads, device=device, dtype=torch.bfloat16)
                   .transpose(1, 2) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    flop = 2 * batch * tokens * tokens * width
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        name = f'attention_b{batch}_h{heads}_d{width // heads}_{backend.name.split("_")[0].lower()}'

        def forward():
            with torch.no_grad(), sdpa_kernel(backend):
                F.scaled_dot_product_attention(q, k, v, is_causal=True)

        def both():
            with sdpa_kernel(backend):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                torch.autograd.grad(y, (q, k, v), gy)

        measure(f'{name}_forward', flop, forward, device)
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic, warn_only=True)
            measure(f'{name}_forward_backward' + '_deterministic' * deterministic, 3.5 * flop, both, device)
        torch.use_deterministic_algorithms(False)


def token_embedding(kind, tokens):
    """Times the gradient of GPT-2's token embedding, which is f32 under autocast too. The lookup takes a small part."""
    weight = torch.randn(50304, 768, device=tokens.device, requires_grad=True)
    gy = torch.randn(*tokens.shape, 768, device=tokens.device)

    def both():
        torch.autograd.grad(F.embedding(tokens, weight), weight, gy)

    measure(f'embedding_{kind}_forward_backward', 0, both, tokens.device.type)


def recurrent(name, kind, rows, device):
    steps, width = 128, 512
    layer = kind(width, width).to(device)
    x, gy = torch.randn(steps, rows, width, device=device), torch.randn(steps, rows, width, device=device)

    def forward():
        with torch.no_grad():
            layer(x)

    def both():
        torch.autograd.grad(layer(x)[0], tuple(layer.parameters()), gy)

    for captures in (False, True):
        suffix = '_captured' * captures
        measure(f'{name}_b{rows}_forward{suffix}', 0, forward, device, captures)
        measure(f'{name}_b{rows}_forward_backward{suffix}', 0, both, device, captures)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    p.add_argument('--batch', type=int, default=16)
    p.add_argument('--rows', type=int, default=64)
    a = p.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    if a.device == 'cuda':
        for heads in (32, 16):
            attention(a.batch, heads, a.device)
    token_embedding('random', torch.randint(0, 50257, (a.batch, 1024), device=a.device))
    token_embedding('one_token', torch.zeros(a.batch, 1024, dtype=torch.long, device=a.device))
    recurrent('lstm', torch.nn.LSTM, a.rows, a.device)
    recurrent('gru', torch.nn.GRU, a.rows, a.device)


if __name__ == '__main__':
    main()
