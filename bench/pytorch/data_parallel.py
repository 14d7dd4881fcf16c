#!/usr/bin/env python3
"""Times PyTorch's DistributedDataParallel on the workloads of torch_peer.py, a batch for each GPU.

    torchrun --standalone --nproc-per-node 2 bench/pytorch/data_parallel.py PEER_DIR [--modes MODE,...] WORKLOAD...

PEER_DIR has torch_peer.py. Rank 0 prints a JSON line for each workload and mode. Modes: eager; compile, of model and
loss; graph and compile_graph, the whole step captured in a CUDA graph. "_alone" behind a mode leaves DDP out, on rank 0.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


def trainer(peer, name, mode, device, is_parallel):
    """Returns a function that takes a step."""
    build, data, batch, precision, optimizer, last = peer.WORKLOADS[name]
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != 'fp32'
    torch.backends.cudnn.benchmark = True
    model, (x, y) = build().to(device), (t.to(device) for t in data(batch))
    if last and x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    words = mode.split('_')
    captured = 'graph' in words
    options = {'fused': True} if optimizer is not peer.sgd else {}
    if captured and optimizer is not peer.sgd:
        options['capturable'] = True
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # as PyTorch's notes on CUDA graphs say
        net = DistributedDataParallel(model, device_ids=[device], gradient_as_bucket_view=True) if is_parallel else model
    torch.cuda.current_stream().wait_stream(side)
    opt = optimizer(model.parameters(), **options)

    def loss_of(x, y):
        return F.cross_entropy(net(x), y)

    if 'compile' in words:
        loss_of = torch.compile(loss_of)

    def step():
        opt.zero_grad(set_to_none=not is_parallel)
        with torch.autocast('cuda', torch.bfloat16, enabled=precision == 'bf16'):
            loss = loss_of(x, y)
        loss.backward()
        opt.step()
        return loss

    if not captured:
        return step, batch
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(12):  # DDP needs 11 before a capture
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss

    replay.of = step  # holds the model and the data, which the graph reads
    return replay, batch


def measure(step, is_parallel):
    for _ in range(15):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    burst = torch.tensor([max(3, min(200, int(0.4 / (time.perf_counter() - start))))], device='cuda')
    if is_parallel:
        dist.broadcast(burst, 0)
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(burst.item()):
            loss = step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / burst.item() * 1e3)
    return statistics.median(times), loss.item()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('peer')
    p.add_argument('--modes', default='eager,compile,compile_graph')
    p.add_argument('workload', nargs='+')
    a = p.parse_args()
    sys.path.insert(0, a.peer)
    import torch_peer as peer
    os.environ['TORCH_NCCL_ASYNC_ERROR_HANDLING'] = '0'  # its watchdog disturbs a capture
    rank, device = int(os.environ['RANK']), int(os.environ['LOCAL_RANK'])
    torch.cuda.set_device(device)
    dist.init_process_group('nccl', device_id=torch.device('cuda', device))
    size = dist.get_world_size()
    for name in a.workload:
        for mode in a.modes.split(','):
            is_alone = mode.endswith('_alone')
            line = {'workload': name, 'mode': mode, 'ranks': 1 if is_alone else size, 'torch': torch.__version__}
            if not is_alone or rank == 0:
                try:
                    step, batch = trainer(peer, name, mode, device, not is_alone)
                    ms, loss = measure(step, not is_alone)
                    line |= {'batch': batch, 'ms_per_step': round(ms, 4), 'loss': round(loss, 4)}
                    del step
                except Exception as e:  # a mode that cannot run must not hide the others
                    line['error'] = str(e)[:300]
                    torch.cuda.synchronize()
            if rank == 0:
                print(json.dumps(line), flush=True)
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            dist.barrier()
    os._exit(0)  # a captured communicator may not end cleanly


if __name__ == '__main__':
    main()
