"""GPUs as the roofline sees them: bandwidth, dense tensor FLOPs and memory, from the vendor's data sheets.

Data sheets print tensor rates with 2:4 sparsity; the rates here are the dense ones, half of that, since no served
checkpoint is sparse. Data-sheet gigabytes count as 1e9 bytes, slightly under what the driver reports.
"""

from dataclasses import dataclass

from engine.plan.errors import PlanError, require_positive

# Time of one small all-reduce, an assumption and not a data-sheet value: about what a one-shot kernel takes
# over NVLink, and what a ring takes between cards that only share PCIe.
NVLINK_ALL_REDUCE_S = 10e-6
PCIE_ALL_REDUCE_S = 40e-6


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator.

    Attributes:
        bandwidth_bytes_per_s: peak memory bandwidth.
        bf16_flops: dense bf16 tensor operations per second.
        fp8_flops: dense fp8 rate, None where the hardware has no fp8 unit (weights are then only stored in fp8).
        memory_bytes: device memory.
        all_reduce_s: one small all-reduce between such devices.
        source: where the figures come from.
    """

    name: str
    bandwidth_bytes_per_s: float
    bf16_flops: float
    fp8_flops: float | None
    memory_bytes: float
    all_reduce_s: float = PCIE_ALL_REDUCE_S
    source: str = "given by the user"

    def __post_init__(self) -> None:
        require_positive("bandwidth", self.bandwidth_bytes_per_s)
        require_positive("flops", self.bf16_flops)
        if self.fp8_flops is not None:
            require_positive("fp8 flops", self.fp8_flops)
        require_positive("memory", self.memory_bytes)


def _device(
    name: str, gb_per_s: float, bf16_tflops: float, fp8_tflops: float | None, gb: float, link_s: float, source: str
) -> Device:
    fp8 = None if fp8_tflops is None else fp8_tflops * 1e12
    return Device(name, gb_per_s * 1e9, bf16_tflops * 1e12, fp8, gb * 1e9, link_s, source)


# In order of bandwidth: "the next GPU up" is the next entry.
DEVICES: tuple[Device, ...] = (
    _device("L4", 300, 121, 242.5, 24, PCIE_ALL_REDUCE_S, "NVIDIA L4 data sheet, 2023"),
    _device("A10", 600, 125, None, 24, PCIE_ALL_REDUCE_S, "NVIDIA A10 data sheet, 2021"),
    _device("L40S", 864, 362.05, 733, 48, PCIE_ALL_REDUCE_S, "NVIDIA L40S data sheet, 2023"),
    _device("A100-40GB", 1555, 312, None, 40, NVLINK_ALL_REDUCE_S, "NVIDIA A100 data sheet, SXM4 40 GB, 2020"),
    _device("A100", 2039, 312, None, 80, NVLINK_ALL_REDUCE_S, "NVIDIA A100 data sheet, SXM4 80 GB, 2021"),
    _device("H100", 3350, 989.5, 1979, 80, NVLINK_ALL_REDUCE_S, "NVIDIA H100 data sheet, SXM5, 2023"),
    _device("H200", 4800, 989.5, 1979, 141, NVLINK_ALL_REDUCE_S, "NVIDIA H200 data sheet, SXM5, 2024"),
    _device("B200", 8000, 2250, 4500, 180, NVLINK_ALL_REDUCE_S, "NVIDIA DGX B200 data sheet, an eighth of it, 2024"),
)


def find_device(name: str) -> Device:
    """The device of that name, in any case and with or without a maker's prefix.

    Raises:
        PlanError: no such device; the message lists those there are.
    """
    wanted = name.strip().lower().removeprefix("nvidia").strip(" -_")
    for device in DEVICES:
        if device.name.lower() == wanted:
            return device
    known = ", ".join(device.name for device in DEVICES)
    raise PlanError("gpu", f"{name!r} is not known; known are {known}, or give bandwidth, FLOPs and memory")


def faster_devices(than: Device) -> tuple[Device, ...]:
    """Known devices with more bandwidth, slowest first."""
    return tuple(d for d in DEVICES if d.bandwidth_bytes_per_s > than.bandwidth_bytes_per_s)
