import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from litebert.batch import NO_LABEL
from litebert.config import UserError
from litebert.training.probe import fit_probe


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
