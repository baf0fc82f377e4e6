"""torch's optimizers without its compiler.

torch keeps its compiler from compiling optimizers, and loads it at their first call to tell it so: 70 MB, and more
than a second of a program's start, where nothing is compiled at all. Here methods are called as they were written,
without what torch has wrapped around them.
"""

import inspect

import torch
from torch.optim import Optimizer


class Uncompiled(Optimizer):
    """An optimizer of one's own."""

    add_param_group = inspect.unwrap(Optimizer.add_param_group)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)
    state_dict = inspect.unwrap(Optimizer.state_dict)
    load_state_dict = inspect.unwrap(Optimizer.load_state_dict)


class AdamW(Uncompiled, torch.optim.AdamW):
    """torch's."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
