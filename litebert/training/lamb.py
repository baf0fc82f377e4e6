"""LAMB: Adam whose step, tensor by tensor, is as long as the tensor's own norm says (ALBERT 4.1; You et al. 2020)."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from litebert.training.parallel import is_spread
from litebert.training.uncompiled import Uncompiled


class Lamb(Uncompiled):
    """As in ALBERT's released code: no bias correction, decay added to the update, one trust ratio for each tensor.

    A group with `adapt` false has no trust ratio: given the biases and layer normalisations, with a weight decay of 0,
    this is the released code's list of exclusions. A tensor that several layers share counts once. One that holds
    several matrices of that code, `parts` of them one below the other, has a ratio for each.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
        adapt: bool = True,
        parts: int = 1,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
            "adapt": adapt,
            "parts": parts,
        }
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                update_group(parameters, [self.moments(parameter) for parameter in parameters], group)
        return loss

    def moments(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state


def update_group(parameters: list[Tensor], states: list[dict[str, Tensor]], group: dict[str, Any]) -> None:
    """One step of all tensors of a group at once; nothing is read back from the device."""
    first, second = group["betas"]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    steps, means, squares = ([state[name] for state in states] for name in ("step", "exp_avg", "exp_avg_sq"))
    torch._foreach_add_(steps, 1.0)
    torch._foreach_lerp_(means, gradients, 1 - first)
    torch._foreach_mul_(squares, second)
    torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)

    updates = torch._foreach_sqrt(squares)
    if group["bias_correction"]:
        step = float(steps[0])
        torch._foreach_div_(updates, (1 - second**step) ** 0.5)
        torch._foreach_add_(updates, group["eps"])
        torch._foreach_mul_(updates, 1 - first**step)
    else:
        torch._foreach_add_(updates, group["eps"])
    torch._foreach_reciprocal_(updates)
    torch._foreach_mul_(updates, means)
    if group["weight_decay"]:
        torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
    if group["adapt"] and group["parts"] == 1:
        ratios = map(divide_norms, torch._foreach_norm(parameters), torch._foreach_norm(updates))
        torch._foreach_mul_(updates, list(ratios))
    elif group["adapt"]:
        for parameter, update in zip(parameters, updates, strict=True):
            update.mul_(spread_ratios(parameter, update, group["parts"]))
    torch._foreach_add_(parameters, updates, alpha=-group["lr"])


def divide_norms(size: Tensor, length: Tensor) -> Tensor:
    """The trust ratio: the norm of a tensor over that of its update; 1 where either is 0."""
    return torch.where((size > 0) & (length > 0), size / length, torch.ones_like(size))


def spread_ratios(parameter: Tensor, update: Tensor, parts: int) -> Tensor:
    """For every row of a tensor the trust ratio of the matrix that it belongs to, spread over devices as the tensor."""
    ratios = divide_norms(measure_parts(parameter, parts), measure_parts(update, parts))
    rows = ratios.repeat_interleave(len(parameter) // parts)[:, None]
    if not is_spread(update):
        return rows
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(rows, update.device_mesh, update.placements)


def measure_parts(tensor: Tensor, parts: int) -> Tensor:
    """The norm of each of the matrices that stand one below the other in a tensor."""
    rows = tensor.square().sum(dim=1)
    whole = rows.full_tensor() if is_spread(rows) else rows
    return whole.view(parts, -1).sum(dim=1).sqrt()
