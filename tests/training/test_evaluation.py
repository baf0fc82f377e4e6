import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from torch.utils._python_dispatch import TorchDispatchMode

from litebert.batch import NO_LABEL, Batch
from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING, HeadConfig, Model
from litebert.training import losses
from litebert.training.evaluation import fit_probe, interval_by_document, measure, restrict_logits
from litebert.training.losses import Pretraining, mean_loss

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


def bootstrap(correct: np.ndarray, documents: np.ndarray, num_draws: int = 4000) -> tuple[float, float]:
    """The middle 95 % of accuracies when documents are drawn again, with all their windows."""
    random, number = np.random.default_rng(0), documents.max() + 1
    right, sizes = np.bincount(documents, correct), np.bincount(documents)
    drawn = random.integers(0, number, (num_draws, number))
    low, high = np.quantile(right[drawn].sum(1) / sizes[drawn].sum(1), [0.025, 0.975])
    return float(low), float(high)


def draw_answers(num_documents: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents of very different sizes, some easy and some hard."""
    random = np.random.default_rng(seed)
    documents = np.repeat(np.arange(num_documents), random.integers(1, 40, num_documents))
    return random.random(len(documents)) < random.beta(3, 1.5, num_documents)[documents], documents


def test_the_interval_is_that_of_a_bootstrap_over_documents() -> None:
    correct, documents = draw_answers(300, seed=0)
    interval = interval_by_document(correct, documents)
    low, high = bootstrap(correct, documents)
    assert interval.value == correct.mean()
    assert interval.low == pytest.approx(low, abs=0.004) and interval.high == pytest.approx(high, abs=0.004)
    naive = 1.96 * math.sqrt(interval.value * (1 - interval.value) / len(correct))
    assert interval.high - interval.low > 2 * 1.5 * naive


def test_the_interval_holds_the_truth_nineteen_times_of_twenty() -> None:
    """The truth is the mean of what documents' accuracies are drawn from, whatever their sizes."""
    found = [interval_by_document(*draw_answers(25, seed)) for seed in range(600)]
    covered = np.mean([interval.low <= 2 / 3 <= interval.high for interval in found])
    assert 0.91 < covered < 0.98


def test_windows_of_one_document_count_as_one_if_they_all_agree() -> None:
    random = np.random.default_rng(0)
    right = random.random(200) < 0.7
    once = interval_by_document(right, np.arange(200))
    repeated = interval_by_document(np.repeat(right, 50), np.repeat(np.arange(200) * 7, 50))
    assert repeated == pytest.approx(once)
    naive = 1.96 * math.sqrt(once.value * (1 - once.value) / (200 * 50))
    assert repeated.high - repeated.low > 7 * 2 * naive


def test_independent_windows_have_the_binomial_interval() -> None:
    right = np.random.default_rng(0).random(5000) < 0.7
    interval = interval_by_document(torch.from_numpy(right), torch.arange(5000))
    margin = 1.96 * math.sqrt(right.mean() * (1 - right.mean()) / 5000)
    assert interval.high - interval.value == pytest.approx(margin, rel=2e-3)
    assert interval.value - interval.low == pytest.approx(margin, rel=2e-3)


def test_few_documents_claim_little() -> None:
    assert interval_by_document([1, 0, 1, 1], [4, 4, 4, 4]) == (0.75, 0.0, 1.0)
    assert interval_by_document([1, 1, 1, 0], [0, 0, 1, 1])[1:] == (0.0, 1.0), "clipped"
    value, low, high = interval_by_document(np.ones(300), np.repeat(np.arange(3), 100))
    assert (value, high) == (1.0, 1.0) and low**3 == pytest.approx(0.025), "three documents right would be this rare"
    assert interval_by_document(np.zeros(5), np.arange(5))[:2] == (0.0, 0.0)
    nothing = interval_by_document([], [])
    assert math.isnan(nothing.value) and nothing[1:] == (0.0, 1.0)
    with pytest.raises(UserError, match="2 answers and the documents of 3"):
        interval_by_document([1, 0], [1, 2, 3])


def make_features(num_classes: int, num_rows: int = 400, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Features of very different sizes, one of them constant, with labels that they tell in part."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(num_rows, 12)) @ random.normal(size=(12, 12)) * np.geomspace(0.01, 100, 12)
    scores = features / features.std(axis=0) @ np.random.default_rng(9).normal(size=(12, num_classes))
    labels = (scores + random.gumbel(size=scores.shape)).argmax(axis=1)
    features[:, 5] = 0.1
    return torch.from_numpy(features).float(), torch.from_numpy(labels)


@pytest.mark.parametrize(("num_classes", "l2"), [(2, 1.0), (3, 1.0), (3, 30.0), (4, 0.01)])
def test_a_probe_is_scikit_learns_logistic_regression(num_classes: int, l2: float) -> None:
    features, labels = make_features(num_classes)
    probe = fit_probe(features, labels, l2=l2)
    scale = features.double().std(dim=0, correction=0)
    standard = ((features.double() - features.double().mean(dim=0)) / torch.where(scale > 1e-6, scale, 1.0)).numpy()
    # For two classes scikit-learn has the difference of our two opposite vectors, whose square counts double.
    strength = (2 if num_classes == 2 else 1) / l2
    oracle = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000).fit(standard, labels.numpy())
    weight, bias = probe.weight_DC.T.numpy(), probe.bias_C.numpy()
    if num_classes == 2:
        weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
    np.testing.assert_allclose(weight, oracle.coef_, atol=2e-5 * np.abs(oracle.coef_).max())
    np.testing.assert_allclose(bias - bias.mean() * (num_classes > 2), oracle.intercept_, atol=1e-4)
    assert np.array_equal(probe.predict(features).numpy(), oracle.predict(standard))
    assert (probe.predict(features) == labels).double().mean() > 1.3 / num_classes


def test_a_probe_is_the_same_each_time_and_draws_nothing() -> None:
    state = torch.random.get_rng_state()
    one, two = (fit_probe(*make_features(3)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_rows_without_a_label_have_no_part_in_a_probe() -> None:
    features, labels = make_features(3)
    more = torch.cat([features, 1000 * features[:50]])
    probe = fit_probe(more, torch.cat([labels, torch.full((50,), NO_LABEL)]))
    assert all(torch.equal(a, b) for a, b in zip(probe, fit_probe(features, labels), strict=True))
    with pytest.raises(UserError, match="no row has a label"):
        fit_probe(features, torch.full_like(labels, NO_LABEL))


def test_a_probe_predicts_labels_and_not_their_places() -> None:
    features, labels = make_features(2)
    probe = fit_probe(features, 2 * labels)
    assert torch.equal(probe.predict(features), 2 * fit_probe(features, labels).predict(features))
    assert fit_probe(features, torch.full_like(labels, 1)).predict(features).eq(1).all(), "even if there is but one"


@pytest.mark.parametrize("rounding", [0.0, 1e-7])
def test_a_feature_that_was_constant_when_the_probe_was_fitted_does_no_harm_later(rounding: float) -> None:
    features, labels = make_features(3)
    features[:, 5] += rounding * torch.randint(0, 2, (len(features),), generator=torch.Generator().manual_seed(0))
    probe = fit_probe(features, labels)
    expected = probe.predict(features)
    features[:, 5] += 1e-3
    assert torch.equal(probe.predict(features), expected)


def test_a_probe_can_be_fitted_where_gradients_are_off() -> None:
    features, labels = make_features(3)
    expected = fit_probe(features, labels)
    with torch.inference_mode():
        probe = fit_probe(features + 0, labels + 0)
    assert torch.equal(probe.weight_DC, expected.weight_DC) and not probe.weight_DC.requires_grad


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
