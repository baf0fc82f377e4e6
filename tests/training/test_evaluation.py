import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from litebert.batch import NO_LABEL, Batch
from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING, HeadConfig
from litebert.models.model import Model
from litebert.training import losses
from litebert.training.evaluation import measure, restrict_logits
from litebert.training.losses import Pretraining, mean_loss
from litebert.training.probe import fit_probe

CONFIG = EncoderConfig(
    vocab_size=61, embedding_size=16, hidden_size=32, num_layers=2, num_heads=4, feed_forward_size=64, num_positions=40,
    initializer_range=0.2, hidden_dropout=0.3,
)  # fmt: skip
MASKED_TOKEN = HeadConfig(kind="masked_token")


def make_model(*heads: HeadConfig) -> Model:
    torch.manual_seed(0)
    return Model(CONFIG, heads)


def make_batches(sizes: tuple[int, ...] = (3, 1, 4), seed: int = 0, num_classes: int = 2) -> list[Batch]:
    """Batches of different sizes, each sequence with a different number of predictions, some without a pair label."""
    random = np.random.default_rng(seed)
    batches = []
    for size in sizes:
        batch = Batch.pack([random.integers(5, 61, random.integers(4, 30)).tolist() for _ in range(size)])
        positions = np.sort(random.choice(batch.num_tokens, random.integers(1, batch.num_tokens), replace=False))
        batches.append(
            replace(
                batch,
                predicted_positions_P=torch.from_numpy(positions),
                predicted_ids_P=torch.from_numpy(random.integers(0, 61, len(positions))),
                pair_labels_B=torch.from_numpy(random.choice([*range(num_classes), NO_LABEL], size)),
            )
        )
    return batches


@pytest.mark.parametrize("chunk_size", [1, 3 * 61, 1 << 22])
def test_measures_are_those_of_plain_cross_entropy_on_all_logits(
    monkeypatch: pytest.MonkeyPatch, chunk_size: int
) -> None:
    monkeypatch.setattr(losses, "CHUNK_SIZE", chunk_size)
    model, batches = make_model(*PRETRAINING), make_batches()
    measured = measure(model, iter(batches), keep_pooled=True)
    with torch.no_grad():
        outputs = [model.eval()(batch) for batch in batches]
    logits_PV = torch.cat([output.logits["masked_token"] for output in outputs])
    targets_P = torch.cat([batch.predicted_ids_P for batch in batches])  # type: ignore[misc]
    each = [F.cross_entropy(logits_V, target).item() for logits_V, target in zip(logits_PV, targets_P, strict=True)]
    assert measured.num_predicted == len(each)
    assert measured.masked_token_loss == pytest.approx(np.mean(each), rel=1e-5)
    assert measured.masked_token_accuracy == pytest.approx((logits_PV.argmax(1) == targets_P).double().mean().item())
    pair_logits_BC = torch.cat([output.logits["pair"] for output in outputs])
    labels_B = torch.cat([batch.pair_labels_B for batch in batches])  # type: ignore[misc]
    labelled_B = labels_B != NO_LABEL
    assert 0 < labelled_B.sum() < len(labels_B)
    assert measured.pair_loss == pytest.approx(F.cross_entropy(pair_logits_BC[labelled_B], labels_B[labelled_B]).item())
    assert measured.pair_logits_BC is not None and measured.pooled_BD is not None
    torch.testing.assert_close(measured.pair_logits_BC, pair_logits_BC)
    assert torch.equal(measured.pair_labels_B, labels_B)
    torch.testing.assert_close(measured.pooled_BD, torch.cat([output.pooled for output in outputs]))


def test_found_tokens_are_counted() -> None:
    model, batches = make_model(*PRETRAINING), make_batches()
    with torch.no_grad():
        best = [model.eval()(batch).logits["masked_token"].argmax(1) for batch in batches]
    assert measure(model, batches).masked_token_accuracy < 0.2
    right = [replace(batch, predicted_ids_P=ids_P) for batch, ids_P in zip(batches, best, strict=True)]
    assert measure(model, right).masked_token_accuracy == 1.0


def test_the_logits_of_one_chunk_are_the_most_that_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "CHUNK_SIZE", 2 * 61)
    rows = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            made = func(*args, **(kwargs or {}))
            if isinstance(made, torch.Tensor) and made.ndim == 2 and made.shape[1] == 61 and func.is_view is False:
                rows.append(len(made))
            return made

    model = make_model(MASKED_TOKEN)
    with Watch():
        measure(model, make_batches())
    assert rows and max(rows) == 2


def test_a_model_without_a_pair_head_and_batches_without_labels_are_measured() -> None:
    batches = make_batches()
    alone = measure(make_model(MASKED_TOKEN), batches)
    assert alone.pair_logits_BC is None and math.isnan(alone.pair_loss) and alone.pooled_BD is None
    assert len(alone.pair_labels_B) == 8
    model = make_model(*PRETRAINING)
    unlabelled = measure(model, [batches[0], *(replace(batch, pair_labels_B=None) for batch in batches[1:])])
    assert unlabelled.pair_labels_B.tolist() == [*batches[0].pair_labels_B.tolist(), *[NO_LABEL] * 5]  # type: ignore[union-attr]
    assert unlabelled.pair_logits_BC is not None and len(unlabelled.pair_logits_BC) == 8
    assert unlabelled.masked_token_loss == measure(model, batches).masked_token_loss
    assert math.isnan(measure(model, [replace(batches[0], pair_labels_B=None)]).pair_loss)


def test_nothing_hidden_is_no_number_and_not_a_perfect_one() -> None:
    nothing = torch.zeros(0, dtype=torch.long)
    batch = replace(make_batches()[0], predicted_positions_P=nothing, predicted_ids_P=nothing)
    measured = measure(make_model(*PRETRAINING), [batch])
    assert math.isnan(measured.masked_token_loss) and measured.num_predicted == 0


def test_measuring_leaves_no_trace() -> None:
    model, batches = make_model(*PRETRAINING).train(), make_batches()
    model.encoder.embedding.eval()
    modes = {name: module.training for name, module in model.named_modules()}
    state = torch.random.get_rng_state()
    first = measure(model, batches)
    assert torch.equal(torch.random.get_rng_state(), state), "no dropout was drawn"
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert measure(model, batches).masked_token_loss == first.masked_token_loss
    for batch in batches:
        mean_loss(Pretraining(), model, batch).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_mode_is_restored_when_batches_fail() -> None:
    def failing() -> Iterator[Batch]:
        yield make_batches()[0]
        raise RuntimeError("the disk is gone")

    model = make_model(*PRETRAINING).train()
    with pytest.raises(RuntimeError, match="the disk is gone"):
        measure(model, failing())
    assert all(module.training for module in model.modules())


def test_batches_are_made_outside_of_inference() -> None:
    """A loader may keep what it makes: a tensor of inference could not be trained on later."""
    made = []

    def loader() -> Iterator[Batch]:
        for _ in range(2):
            made.append(make_batches((2,))[0])
            yield made[-1]

    measured = measure(make_model(*PRETRAINING), loader(), keep_pooled=True)
    assert measured.pooled_BD is not None and measured.pair_logits_BC is not None
    tensors = [*(batch.token_ids_T for batch in made), measured.pooled_BD, measured.pair_logits_BC]
    assert not any(tensor.is_inference() for tensor in tensors)


def test_what_cannot_be_measured_is_refused() -> None:
    batches = make_batches()
    with pytest.raises(UserError, match="no masked-token head"):
        measure(make_model(HeadConfig(kind="pair")), batches)
    with pytest.raises(UserError, match="no pooler"):
        measure(Model(CONFIG, [MASKED_TOKEN], pooler=False), batches, keep_pooled=True)
    with pytest.raises(UserError, match="no batch to measure"):
        measure(make_model(*PRETRAINING), [])
    with pytest.raises(UserError, match="nothing of what is to be predicted"):
        measure(make_model(*PRETRAINING), [replace(batches[0], predicted_ids_P=None)])


def test_a_three_way_head_is_asked_one_question_at_a_time() -> None:
    logits = torch.tensor([[1.0, 2.0, 9.0], [3.0, 9.0, 2.0]])
    assert restrict_logits(logits, "sop").argmax(1).tolist() == [1, 1]
    assert restrict_logits(logits, "nsp").tolist() == [[1.0, 9.0], [3.0, 2.0]]
    assert torch.equal(restrict_logits(logits[:, :2], "nsp"), logits[:, :2])


def test_a_probe_reads_pooled_outputs() -> None:
    """The label is whether a sequence has the piece 7: an untrained encoder does not hide it."""
    random = np.random.default_rng(0)
    sequences = random.integers(8, 61, (600, 6))
    labels = torch.from_numpy(random.integers(0, 2, 600))
    sequences[np.flatnonzero(labels), 0] = 7
    batch = replace(
        Batch.pack(sequences.tolist()),
        predicted_positions_P=torch.arange(1),
        predicted_ids_P=torch.zeros(1, dtype=torch.long),
    )
    pooled_BD = measure(make_model(*PRETRAINING), batch.split(100), keep_pooled=True).pooled_BD
    assert pooled_BD is not None
    probe = fit_probe(pooled_BD[:400], labels[:400])
    assert (probe.predict(pooled_BD[400:]) == labels[400:]).double().mean() > 0.9
