from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from litebert.batch import Batch
from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING, HeadConfig
from litebert.models.model import Model
from litebert.training import losses

CONFIG = EncoderConfig(
    vocab_size=61, embedding_size=16, hidden_size=32, num_layers=2, num_heads=4, feed_forward_size=64, num_positions=40,
    initializer_range=0.2,
)  # fmt: skip
TOKENS = Batch.pack([list(range(5, 25)), list(range(30, 41))])
BATCH = replace(
    TOKENS,
    predicted_positions_P=torch.tensor([0, 3, 4, 9, 19, 20, 28]),
    predicted_ids_P=torch.tensor([7, 7, 60, 0, 1, 30, 2]),
    pair_labels_B=torch.tensor([1, 0]),
)


def make_model(*heads: HeadConfig) -> Model:
    torch.manual_seed(0)
    return Model(CONFIG, heads)


@pytest.mark.parametrize("chunk_size", [1, 61, 3 * 61, 7 * 61, 1 << 22])
def test_chunked_cross_entropy_equals_the_plain_one_in_value_and_gradient(
    monkeypatch: pytest.MonkeyPatch, chunk_size: int
) -> None:
    monkeypatch.setattr(losses, "CHUNK_SIZE", chunk_size)
    model = make_model(*PRETRAINING)
    chunked = losses.mean_loss(losses.Pretraining(), model, BATCH)
    logits = model(BATCH).logits
    plain = F.cross_entropy(logits["masked_token"], BATCH.predicted_ids_P)
    plain = plain + F.cross_entropy(logits["pair"], BATCH.pair_labels_B)
    torch.testing.assert_close(chunked, plain)
    parameters = list(model.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(chunked, parameters), torch.autograd.grad(plain, parameters), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_the_chunked_gradient_is_the_derivative_of_the_value() -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in ((5, 3), (7, 3), (7,))]
    targets_P = torch.tensor([0, 6, 2, 2, 5])
    assert torch.autograd.gradcheck(lambda *args: losses.TiedCrossEntropy.apply(*args, targets_P, True)[0], inputs)


def test_a_hopeless_prediction_has_a_finite_loss() -> None:
    prepared = torch.tensor([[1000.0]], requires_grad=True)
    words = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    loss, *_ = losses.TiedCrossEntropy.apply(prepared, words, torch.zeros(2), torch.tensor([1]), True)
    assert loss.item() == 2000.0


def test_without_gradients_only_the_value_is_computed() -> None:
    model = make_model(*PRETRAINING)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        loss = losses.mean_loss(losses.Pretraining(), model, BATCH)
    with torch.no_grad(), FlopCounterMode(display=False) as of_forward:
        features = model.encode(BATCH)
        for head in model.heads.values():
            head(features)
    assert counter.get_total_flops() == of_forward.get_total_flops()
    torch.testing.assert_close(loss, losses.mean_loss(losses.Pretraining(), model, BATCH).detach())


def test_a_model_without_a_pair_head_learns_masked_tokens_alone() -> None:
    model = make_model(HeadConfig(kind="masked_token"))
    expected = F.cross_entropy(model(BATCH).logits["masked_token"], BATCH.predicted_ids_P)
    torch.testing.assert_close(losses.mean_loss(losses.Pretraining(), model, BATCH), expected)


def test_a_batch_without_targets_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing of what is to be predicted"):
        losses.mean_loss(losses.Pretraining(), make_model(*PRETRAINING), TOKENS)
    with pytest.raises(ValueError, match="no pair labels"):
        losses.mean_loss(losses.Pretraining(), make_model(*PRETRAINING), replace(BATCH, pair_labels_B=None))


def test_a_batch_with_nothing_hidden_has_no_masked_token_loss() -> None:
    nothing = torch.zeros(0, dtype=torch.long)
    model = make_model(HeadConfig(kind="masked_token"))
    loss = losses.mean_loss(
        losses.Pretraining(), model, replace(BATCH, predicted_positions_P=nothing, predicted_ids_P=nothing)
    )
    loss.backward()
    assert loss.item() == 0 and not model.encoder.embedding.words.weight.grad.any()


def test_a_model_without_the_head_is_refused() -> None:
    with pytest.raises(UserError, match="no masked-token head"):
        losses.mean_loss(losses.Pretraining(), make_model(HeadConfig(kind="pair")), BATCH)


def test_training_compiles() -> None:
    model = make_model(*PRETRAINING)
    compiled = torch.compile(losses.mean_loss, backend="aot_eager")
    compiled(losses.Pretraining(), model, BATCH).backward()
    gradient = model.encoder.embedding.words.weight.grad.clone()
    model.zero_grad()
    losses.mean_loss(losses.Pretraining(), model, BATCH).backward()
    torch.testing.assert_close(gradient, model.encoder.embedding.words.weight.grad, rtol=1e-4, atol=1e-6)


def test_a_model_learns_a_batch_by_heart() -> None:
    model = make_model(*PRETRAINING)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = losses.mean_loss(losses.Pretraining(), model, BATCH).item()
    for _ in range(150):
        optimizer.zero_grad()
        loss = losses.mean_loss(losses.Pretraining(), model, BATCH)
        loss.backward()
        optimizer.step()
    assert first > 3 and loss.item() < 0.1
