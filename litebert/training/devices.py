"""What devices can do, by their makers' data sheets, and what is assumed of them."""

from dataclasses import dataclass
from typing import Literal

from litebert.config import UserError, nearest, require

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device. Speeds are peaks of dense matrix products, in FLOP/s; memory in bytes; the rest per second."""

    fp32: float
    """Without TF32, which LiteBERT leaves off as torch does."""
    bf16: float | None
    memory: float
    link: float
    """What a device can send to its neighbour in one direction, within a machine."""
    network: float
    """The same between machines."""
    per_machine: int
    share: float
    """ASSUMED: how much of the peak training reaches."""
    price: float
    """ASSUMED: US dollars an hour, about what clouds asked in 2024 on demand; it changes."""

    def speed(self, precision: Precision) -> float | None:
        return self.fp32 if precision == "fp32" else self.bf16

    def bandwidth(self, num_devices: int) -> float:
        """A ring is as fast as its slowest part."""
        return self.link if num_devices <= self.per_machine else self.network


# Speeds, memory and links are those of the makers' data sheets: NVIDIA A100, H100 (SXM), V100 (SXM2), T4, L4; Ada
# architecture white paper (RTX 4090); Google Cloud's system architecture of TPU v3. Speeds with sparsity are not used.
# Links are half of what is given for both directions. Networks are those of the usual machines of each kind: a card of
# 200 (A100) or 400 (H100) Gbit/s for each device, 100 Gbit/s for eight V100s, 10 to 25 Gbit/s for one of the others.
# A TPU core is half a chip, which multiplies bf16 alone; LiteBERT does not run there: it is for comparison.
KINDS: dict[str, Device] = {
    "a100-40": Device(
        fp32=19.5e12, bf16=312e12, memory=40e9, link=300e9, network=25e9, per_machine=8, share=0.35, price=3.7
    ),
    "a100-80": Device(
        fp32=19.5e12, bf16=312e12, memory=80e9, link=300e9, network=25e9, per_machine=8, share=0.35, price=5.0
    ),
    "h100": Device(
        fp32=67e12, bf16=989e12, memory=80e9, link=450e9, network=50e9, per_machine=8, share=0.35, price=9.0
    ),
    "v100": Device(
        fp32=15.7e12, bf16=None, memory=16e9, link=150e9, network=1.5e9, per_machine=8, share=0.35, price=2.5
    ),
    "t4": Device(fp32=8.1e12, bf16=None, memory=16e9, link=16e9, network=3e9, per_machine=1, share=0.35, price=0.5),
    "l4": Device(fp32=30.3e12, bf16=121e12, memory=24e9, link=32e9, network=3e9, per_machine=1, share=0.35, price=0.7),
    "rtx-4090": Device(
        fp32=82.6e12, bf16=165e12, memory=24e9, link=32e9, network=1.25e9, per_machine=1, share=0.35, price=0.4
    ),
    "tpu-v3": Device(
        fp32=61.5e12, bf16=61.5e12, memory=16e9, link=70e9, network=70e9, per_machine=1, share=0.35, price=1.0
    ),
}
OTHER_NAMES = {"a100": "a100-40", "tpu-v3-core": "tpu-v3"}


def look_up_device(kind: str, precision: Precision) -> tuple[str, Device]:
    """A device by its name, if it has the precision."""
    name = OTHER_NAMES.get(kind, kind)
    if name not in KINDS:
        raise UserError(f"kind is {kind!r}, which is no known device{nearest(kind, [*KINDS, 'this'])}")
    device = KINDS[name]
    require(device.speed(precision), f"{name} does not multiply bf16; use --precision fp32, or another kind")
    return name, device
