#!/usr/bin/env python3
"""Runs the public recipe airbench94_muon of CIFAR-10 with PyTorch, compiled, and writes results of the same form as those
of examples/cifar10 --race --json, for bench/race/picture.py.

usage: bench/pytorch/race.py AIRBENCH94_MUON.py DATA RESULTS.json [--seeds 20]

AIRBENCH94_MUON.py is a file of https://github.com/KellerJordan/cifar10-airbench. It runs as it is. DATA is the folder of
cifar-10-batches-bin. The clock is the recipe's own: whitening, training and the final test count. Compilation, tests
after an epoch and a run for warm-up, on random labels, do not. Works without torchvision.
"""
import argparse
import importlib.util
import json
import os
import sys
import tempfile
import types
from pathlib import Path

import numpy
import torch


class Normalize(torch.nn.Module):
    """As in torchvision, of which the recipe uses nothing else."""

    def __init__(self, mean, std):
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, x):
        mean, std = (v.to(x.device, x.dtype).view(-1, 1, 1) for v in (self.mean, self.std))
        return (x - mean) / std


def stand_in_for_torchvision():
    package, transforms = types.ModuleType('torchvision'), types.ModuleType('torchvision.transforms')
    package.transforms, transforms.Normalize = transforms, Normalize
    sys.modules.update({'torchvision': package, 'torchvision.transforms': transforms})


def write_images(data, folder):
    """Writes train.pt and test.pt, as the recipe caches them."""
    folder.mkdir()
    names = {'train': [f'data_batch_{i}.bin' for i in range(1, 6)], 'test': ['test_batch.bin']}
    for part, files in names.items():
        records = numpy.concatenate([numpy.fromfile(data / file, numpy.uint8) for file in files]).reshape(-1, 3073)
        images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        torch.save({'images': torch.tensor(images), 'labels': torch.tensor(records[:, 0], dtype=torch.int64),
                    'classes': [str(i) for i in range(10)]}, folder / f'{part}.pt')


def load(path):
    spec = importlib.util.spec_from_file_location('recipe', path)
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    return recipe


def one_run(recipe, model, run, seed):
    """Trains once. Returns the times and accuracies that the recipe prints."""
    epochs, final = [], {}

    def note(variables, is_final_entry):
        if is_final_entry:
            final.update(seconds=variables['time_seconds'], test_accuracy=variables['tta_val_acc'])
        else:
            epochs.append({'seconds': variables['time_seconds'], 'test_accuracy': variables['val_acc']})

    recipe.print_training_details = note
    torch.manual_seed(seed)
    recipe.main(run, model)
    return {'seed': seed, **final, 'epochs': epochs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('recipe', type=Path)
    parser.add_argument('data', type=Path)
    parser.add_argument('results', type=Path)
    parser.add_argument('--seeds', type=int, default=20)
    args = parser.parse_args()
    results = args.results.resolve()
    stand_in_for_torchvision()
    recipe = load(args.recipe.resolve())
    with tempfile.TemporaryDirectory() as folder:
        write_images(args.data.resolve(), Path(folder) / 'cifar10')
        os.chdir(folder)
        model = recipe.CifarNet().cuda().to(memory_format=torch.channels_last)
        model.compile(mode='max-autotune')
        one_run(recipe, model, 'warmup', 0)
        runs = []
        for seed in range(args.seeds):
            runs.append(one_run(recipe, model, seed, seed))
            print(f'run {seed}: {100 * runs[-1]["test_accuracy"]:.2f} % in {runs[-1]["seconds"]:.3f} s', flush=True)
        os.chdir('/')
    worker = f'PyTorch {torch.__version__}, {torch.cuda.get_device_name()}'
    results.write_text(json.dumps({'worker': worker, 'epochs': len(runs[0]['epochs']), 'runs': runs}, indent=1))


if __name__ == '__main__':
    main()
