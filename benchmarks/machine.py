"""What the machine can do, measured beside every benchmark, and what it is."""

import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch

Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"wall": time.perf_counter, "cpu": time.process_time}


def sync(device: torch.device) -> None:
    """Wait for a GPU to finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matmul_peak(device: torch.device, dtype: torch.dtype, width: int, inner: int, clock: Clock) -> float:
    """Best rate of a matrix product over several shapes, the model's own among them, in FLOP/s."""
    best = 0.0
    for m, k, n in ((4096, width, inner), (4096, inner, width), (2048, 2048, 2048), (1024, 1024, 1024)):
        a = torch.randn(m, k, device=device, dtype=dtype)
        b = torch.randn(n, k, device=device, dtype=dtype)
        for _ in range(4):
            sync(device)
            start = clock()
            torch.nn.functional.linear(a, b)
            sync(device)
            best = max(best, 2.0 * m * k * n / max(clock() - start, 1e-9))
    return best


def describe(device: torch.device) -> str:
    """One line about the machine."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = platform.processor() or platform.machine()
        info = Path("/proc/cpuinfo")
        if info.exists():
            models = [x for x in info.read_text().splitlines() if x.startswith("model name")]
            name = models[0].split(":", 1)[1].strip() if models else name
    threads = torch.get_num_threads()
    return f"{name}, {threads} threads, torch {torch.__version__}, Python {platform.python_version()}"
