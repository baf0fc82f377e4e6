import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from litebert.training.uncompiled import AdamW


def train(optimizer: torch.optim.Optimizer, model: nn.Module, steps: int) -> None:
    inputs = torch.randn(steps, 5, 6, generator=torch.Generator().manual_seed(1))
    for values in inputs:
        optimizer.zero_grad()
        model(values).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("fused", [True, False])
def test_steps_are_torchs_to_the_last_bit_also_after_a_stop(fused: bool) -> None:
    ours, theirs = (nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    mine = AdamW(ours.parameters(), lr=0.01, weight_decay=0.1, fused=fused)
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.1, fused=fused)
    for _ in range(2):
        train(mine, ours, 10)
        train(reference, theirs, 10)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other)
        state = copy.deepcopy(mine.state_dict())
        mine = AdamW(ours.parameters(), lr=0.5, fused=fused)
        mine.load_state_dict(state)


def test_a_step_asks_for_no_gradients_of_its_own() -> None:
    model = nn.Linear(6, 3)
    optimizer = AdamW(model.parameters(), lr=0.01)
    train(optimizer, model, 1)
    assert torch.is_grad_enabled()
    assert not any(moment.requires_grad for state in optimizer.state.values() for moment in state.values())


PROGRAM = """
import sys
import torch
from litebert.batch import Batch
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.pretraining import run
from litebert.training.losses import Pretraining, mean_loss
from litebert.training.optimizer import OptimizerConfig, make_optimizer
from litebert.training.parallel import gather_tensors, restore_tensors

model = Model(EncoderConfig(vocab_size=50, embedding_size=8, hidden_size=16, num_layers=1, num_heads=2,
                            feed_forward_size=32), PRETRAINING)
ids = torch.arange(10)
batch = Batch(lengths=(6, 4), token_ids_T=ids, segment_ids_T=ids % 2, predicted_positions_P=ids[:2],
              predicted_ids_P=ids[:2], pair_labels_B=ids[:2])
for name in ("lamb", "adamw"):
    optimizer = make_optimizer(model, OptimizerConfig(optimizer=name), 1e-3)
    optimizer.zero_grad()
    mean_loss(Pretraining(), model, batch).backward()
    optimizer.step()
    restore_tensors(model, optimizer, gather_tensors(model, optimizer))
print(sorted(name for name in ("torch._dynamo", "sympy") if name in sys.modules))
"""


def test_training_loads_no_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
