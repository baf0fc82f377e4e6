"""Several processes that train one model: started by torchrun, one for each device.

Every rank has its share of each batch. DDP keeps a copy of everything on every rank and adds up the gradients; FSDP
keeps a part of the weights, gradients and moments on each. A checkpoint holds whole tensors under their names, whatever
was used, so a run can go on with another number of ranks, or with one.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from litebert.config import UserError, require

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor
    from typing_extensions import TypeIs

Parallel = Literal["ddp", "fsdp"]
CPU = torch.device("cpu")
LONGEST_END = timedelta(days=7)
"""How long ranks that are done wait for one that still writes."""


@dataclass(frozen=True)
class Ranks:
    """This process among all."""

    rank: int = 0
    num_ranks: int = 1
    device: torch.device = CPU

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def tell(self, message: str) -> None:
        """Says it to the user, not to what reads the output, and once, however many ranks there are."""
        if self.is_first:
            print(message, file=sys.stderr, flush=True)

    def add_up(self, values: Sequence[float]) -> list[float]:
        """The sums of these numbers over all ranks."""
        if self.num_ranks == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def add_up_tensor(self, values: Tensor) -> None:
        """The same for a tensor, in place."""
        if self.num_ranks > 1:
            total = values.to(self.device)
            dist.all_reduce(total)
            values.copy_(total)

    def agree_on(self, number: int, what: str) -> None:
        """Refuses to go on where the ranks have not found the same number."""
        lowest, highest = -self.find_highest(-number), self.find_highest(number)
        require(
            lowest == highest,
            f"the ranks have found {what} from {lowest} to {highest}; all must see the same run folder",
        )

    def agree_whether(self, is_seen: bool, what: object) -> None:
        """Refuses to go on where only some of the ranks see a file."""
        require(
            self.add_up([float(is_seen)])[0] in (0, self.num_ranks),
            f"some processes see {what} and others do not; put the run folder on a disk that all machines share",
        )

    def find_highest(self, number: int) -> int:
        if self.num_ranks == 1:
            return number
        highest = torch.tensor(number, device=self.device)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        return int(highest)

    def do_first(self, deed: Callable[[], object]) -> None:
        """Does something on the first rank alone; where a user's mistake or the system prevents it, all ranks end."""
        error: Exception | None = None
        if self.is_first:
            try:
                deed()
            except (UserError, OSError) as caught:
                error = caught
        failed = self.add_up([float(error is not None)])[0]
        if error is not None:
            raise error
        require(not failed, "stopped, because rank 0 met an error; its message says which")


def find_device(number: int = 0) -> torch.device:
    """Where a process of this machine works."""
    return torch.device("cuda", number) if torch.cuda.is_available() else torch.device("cpu")


def read_variable(name: str, default: int) -> int:
    """A number that torchrun sets."""
    value = os.environ.get(name) or str(default)
    require(value.isdecimal(), f"{name} is {value!r} in the environment; leave it to torchrun, which sets a number")
    return int(value)


@contextlib.contextmanager
def join_ranks() -> Iterator[Ranks]:
    """The processes that torchrun started, or this one alone."""
    num_ranks, local = read_variable("WORLD_SIZE", 1), read_variable("LOCAL_RANK", 0)
    device = find_device(local)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if num_ranks == 1:
        yield Ranks(device=device)
        return
    try:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    except ValueError as error:
        raise UserError(f"WORLD_SIZE is {num_ranks} but the ranks cannot meet ({error}); start with torchrun") from None
    # The first rank may score and write for long when the others are done. They wait for it, for connections that are
    # closed meanwhile can end it; and longer than the half an hour that gloo would.
    end = dist.new_group(backend="gloo", timeout=LONGEST_END)
    try:
        yield Ranks(dist.get_rank(), num_ranks, device)
        dist.barrier(end)
    finally:
        dist.destroy_process_group()


def spread(module: nn.Module, ranks: Ranks, parallel: Parallel) -> nn.Module:
    """The module as all ranks train it together. Gradients come out as means over the ranks."""
    if ranks.num_ranks == 1:
        require(parallel == "ddp", "fsdp spreads a model over several processes; start them with torchrun")
        return module
    if parallel == "ddp":
        return nn.parallel.DistributedDataParallel(module)
    from torch.distributed.fsdp import fully_shard

    fully_shard(module, reshard_after_forward=False)
    return module


def without_exchange(module: nn.Module) -> AbstractContextManager[None]:
    """Gradients of what is computed inside stay on their rank, to be exchanged with the next."""
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return module.no_sync()
    return hold_gradients(module) if hasattr(module, "set_requires_gradient_sync") else contextlib.nullcontext()


@contextlib.contextmanager
def whole_weights(module: Any) -> Iterator[None]:
    """Every rank has all weights inside, to use the model as if it were alone."""
    if not hasattr(module, "unshard"):
        yield
        return
    module.unshard()
    try:
        yield
    finally:
        module.reshard()


@contextlib.contextmanager
def hold_gradients(module: Any) -> Iterator[None]:
    module.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        module.set_requires_gradient_sync(True)


def gather_weights(model: nn.Module) -> dict[str, Tensor]:
    """All weights by name, whole. Every rank must call it, for the parts are sent around."""
    return {name: whole(parameter) for name, parameter in model.named_parameters()}


def gather_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The same with the optimizer's moments."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {f"model.{name}": tensor for name, tensor in gather_weights(model).items()}
    for parameter, name in names.items():
        # Putting parts together is done by all ranks at once, so all must go through them in the same order.
        for kind, value in sorted(optimizer.state.get(parameter, {}).items()):
            tensors[f"optimizer.{kind}.{name}"] = whole(value)
    return tensors


def whole(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return (tensor.full_tensor() if is_spread(tensor) else tensor).cpu()


def is_spread(tensor: Tensor) -> "TypeIs[DTensor]":
    """Whether it is one of FSDP's, of which a rank holds a part."""
    return hasattr(tensor, "full_tensor")


@torch.no_grad()
def restore_tensors(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Puts back what `gather_tensors` took, each rank its own part."""
    moments: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, kind, parameter_name = name.split(".", 2)
            moments.setdefault(parameter_name, {})[kind] = tensor
    for name, parameter in model.named_parameters():
        parameter.copy_(part_of(tensors[f"model.{name}"], parameter))
        if name in moments:
            optimizer.state[parameter] = {
                kind: value.to(parameter.device) if value.ndim == 0 else part_of(value, parameter).clone()
                for kind, value in moments[name].items()
            }


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, laid out over the ranks as another is."""
    tensor = tensor.to(like.device)
    if not is_spread(like):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    # Every rank has the whole tensor and takes its part: nothing is sent.
    return distribute_tensor(tensor, like.device_mesh, like.placements, src_data_rank=None)
