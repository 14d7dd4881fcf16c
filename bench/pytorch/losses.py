#!/usr/bin/env python3
"""Trains a GPT-2 with PyTorch, from random weights on a text, one byte a token, and writes the loss of each step.

Writes model.safetensors (with Hugging Face's names), tokens.npy and, for each mode, torch_<mode>_<precision>.csv into a
folder. bench/losses then trains on the same weights and tokens. --compare prints how far the losses are apart, and draws
them.
--gradients writes the gradients of the first step, of each mode and precision. With --compare, it prints how far they are
from those of f64, also for bench/losses --gradients.
usage: bench/pytorch/losses.py FOLDER --text FILE [--device cuda] [--precisions f32,bf16] [--modes eager,compile]
                               [--steps 200] [--batch 8] [--context 1024] [--layers 12] [--width 768] [--threads N]
                               [--gradients]
       bench/pytorch/losses.py FOLDER --compare [--picture losses.png] [--gradients]
"""
import argparse
import gzip
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, CONTEXT = 50257, 1024


class Gpt2(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.heads = width // 64
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(CONTEXT, width)
        self.h = nn.ModuleList()
        for _ in range(layers):
            b = nn.Module()
            b.ln_1, b.ln_2, b.attn, b.mlp = nn.LayerNorm(width), nn.LayerNorm(width), nn.Module(), nn.Module()
            b.attn.c_attn, b.attn.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            b.mlp.c_fc, b.mlp.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.h.append(b)
        self.ln_f = nn.LayerNorm(width)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear):
                nn.init.zeros_(m.bias)

    def forward(self, tokens, targets):
        b, t = tokens.shape
        x = self.wte(tokens) + self.wpe(torch.arange(t, device=tokens.device))
        for block in self.h:
            q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2)
                       for p in block.attn.c_attn(block.ln_1(x)).chunk(3, -1))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block.attn.c_proj(a.transpose(1, 2).reshape(b, t, -1))
            x = x + block.mlp.c_proj(F.gelu(block.mlp.c_fc(block.ln_2(x)), approximate='tanh'))
        return F.cross_entropy(F.linear(self.ln_f(x), self.wte.weight).flatten(0, 1), targets.flatten())


def save_weights(model, path):
    """In Hugging Face's format, in which the weights of linear layers are transposed (Conv1D)."""
    from safetensors.torch import save_file
    linear = {f'{name}.weight' for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    save_file({name: (p.detach().T if name in linear else p.detach()).contiguous().cpu()
               for name, p in model.named_parameters()}, path)


def batches(path, steps, batch, context):
    """Random windows of the text, i64 (steps, batch, context + 1)."""
    text = (gzip.open if path.endswith('.gz') else open)(path, 'rb').read()
    data = numpy.frombuffer(text, numpy.uint8).astype(numpy.int64)
    starts = numpy.random.default_rng(0).integers(0, len(data) - context, (steps, batch))
    return data[starts[..., None] + numpy.arange(context + 1)]


def train(model, tokens, mode, precision, device):
    torch.backends.cuda.matmul.allow_tf32 = precision == 'tf32'
    model.to(torch.float64 if precision == 'f64' else torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    loss_of = torch.compile(model) if mode == 'compile' else model
    losses = []
    for windows in torch.from_numpy(tokens):
        windows = windows.to(device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=precision == 'bf16'):
            loss = loss_of(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def first_gradients(model, tokens, mode, precision, device):
    torch.backends.cuda.matmul.allow_tf32 = precision == 'tf32'
    model.to(torch.float64 if precision == 'f64' else torch.float32).zero_grad(set_to_none=True)
    windows = torch.from_numpy(tokens[0]).to(device)
    with torch.autocast(device, torch.bfloat16, enabled=precision == 'bf16'):
        loss = (torch.compile(model) if mode == 'compile' else model)(windows[:, :-1].contiguous(),
                                                                      windows[:, 1:].contiguous())
    loss.backward()
    return {name: p.grad.cpu() for name, p in model.named_parameters()}


def compare_gradients(folder):
    """Prints the relative error of each parameter's gradient, in units of 1e-8, and the median."""
    from safetensors.torch import load_file
    exact = load_file(folder / 'gradients_torch_eager_f64.safetensors')
    files = [f for f in sorted(folder.glob('gradients_*.safetensors')) if not f.stem.endswith('_f64')]
    errors = {}
    for f in files:
        errors[f.stem[len('gradients_'):]] = {
            name: ((g.double() - exact[name]).norm() / exact[name].norm() * 1e8).item() for name, g in load_file(f).items()}
    print('relative errors of gradients, 1e-8:', ', '.join(errors))
    for name in exact:
        print(f'{name:26}' + ''.join(f'{e[name]:12.4g}' for e in errors.values()))
    print(f'{"median":26}' + ''.join(f'{numpy.median(list(e.values())):12.4g}' for e in errors.values()))


def compare(folder, picture):
    """Prints the largest and the mean distance of each curve from PyTorch's eager ones of the same precision and f64."""
    curves = {f.stem: numpy.loadtxt(f) for f in sorted(folder.glob('*_*.csv'))}
    for name, curve in curves.items():
        for precision in dict.fromkeys((name.rsplit('_', 1)[1], 'f64')):
            eager = curves.get('torch_eager_' + precision)
            if eager is not None and curve is not eager:
                apart = numpy.abs(curve - eager)
                print(f'{name}: at most {apart.max():.3g}, on average {apart.mean():.3g} from PyTorch eager {precision}, '
                      f'{len(curve)} steps, {curve[0]:.4f} to {curve[-1]:.4f}')
    if not picture:
        return
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(8, 6.4), dpi=120, sharex=True, height_ratios=(3, 2))
    reference = curves.get('torch_eager_f32', next(iter(curves.values())))
    for name, curve in curves.items():
        is_ours = name.startswith('bytetape')
        style = dict(linewidth=1.8 if is_ours else 1, linestyle='--' if is_ours else '-',
                     color={'bytetape': 'C3', 'torch_eager': 'C0', 'torch_compile': 'C2'}[name.rsplit('_', 1)[0]],
                     alpha=1 if name.endswith('f32') else 0.6)
        label = name.replace('torch', 'PyTorch').replace('_', ' ')
        above.plot(curve, label=label, **style)
        if curve is not reference:
            below.semilogy(numpy.maximum(numpy.abs(curve - reference), 1e-7), label=label, **style)
    above.set(ylabel='loss (nats per byte)')
    below.set(xlabel='step', ylabel='distance from\nPyTorch eager f32')
    above.legend(frameon=False)
    for axes in (above, below):
        axes.spines[['top', 'right']].set_visible(False)
    figure.tight_layout()
    figure.savefig(picture)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('folder', type=Path)
    p.add_argument('--compare', action='store_true')
    p.add_argument('--gradients', action='store_true')
    p.add_argument('--picture')
    p.add_argument('--text')
    p.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu')
    p.add_argument('--precisions', default='f32')
    p.add_argument('--modes', default='eager,compile')
    for name, default in dict(steps=200, batch=8, context=1024, layers=12, width=768, threads=0).items():
        p.add_argument(f'--{name}', type=int, default=default)
    a = p.parse_args()
    if a.compare:
        return compare_gradients(a.folder) if a.gradients else compare(a.folder, a.picture)
    if not a.text:
        p.error('--text is missing')
    if a.threads:
        torch.set_num_threads(a.threads)
    a.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = Gpt2(a.layers, a.width)
    first = {name: x.clone() for name, x in model.state_dict().items()}
    tokens = batches(a.text, a.steps, a.batch, a.context)
    save_weights(model, a.folder / 'model.safetensors')
    numpy.save(a.folder / 'tokens.npy', tokens)
    model.to(a.device)
    for precision in a.precisions.split(','):
        for mode in a.modes.split(','):
            model.load_state_dict(first)
            if a.gradients:
                from safetensors.torch import save_file
                save_file(first_gradients(model, tokens, mode, precision, a.device),
                          a.folder / f'gradients_torch_{mode}_{precision}.safetensors')
                continue
            losses = train(model, tokens, mode, precision, a.device)
            numpy.savetxt(a.folder / f'torch_{mode}_{precision}.csv', losses, fmt='%.9g')
            print(f'{mode} {precision}: loss {losses[0]:.4f} to {losses[-1]:.4f}', flush=True)


if __name__ == '__main__':
    main()
