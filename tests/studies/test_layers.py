import numpy as np
import pytest
import torch

from litebert.batch import Batch
from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import PRETRAINING
from litebert.models.model import Model
from litebert.studies.layers import Layers, measure_layers, tabulate_layers
from litebert.studies.pictures import draw_layers

CONFIG = EncoderConfig(
    vocab_size=50, embedding_size=16, hidden_size=32, num_layers=4, num_heads=2, feed_forward_size=64, num_positions=20,
    hidden_dropout=0.5, initializer_range=0.2,
)  # fmt: skip


def make_model() -> Model:
    torch.manual_seed(0)
    return Model(CONFIG, PRETRAINING).train()


def make_batches() -> list[Batch]:
    return [Batch.pack([[2, 7, 8, 9, 3], [2, 30, 3]]), Batch.pack([[2, 11, 12, 13, 14, 15, 3]])]


def test_distances_and_angles_are_means_over_all_tokens_without_dropout() -> None:
    model = make_model()
    measured = measure_layers(model, make_batches())
    assert model.training and measured.num_tokens == 15
    model.eval()
    with torch.no_grad():
        depths = [model.encoder(batch, keep_depths=True).depths for batch in make_batches()]
    states = [np.concatenate([part[layer].numpy() for part in depths]) for layer in range(5)]  # type: ignore[index]
    for layer in range(4):
        before, after = states[layer], states[layer + 1]
        lengths = np.sqrt(((after - before) ** 2).sum(axis=1))
        cosines = (before * after).sum(axis=1) / np.linalg.norm(before, axis=1) / np.linalg.norm(after, axis=1)
        assert measured.distances[layer] == pytest.approx(lengths.mean(), rel=1e-5)
        assert measured.angles[layer] == pytest.approx(np.degrees(np.arccos(cosines)).mean(), rel=1e-4)


def test_no_text_is_refused() -> None:
    with pytest.raises(UserError, match="no text to measure layers on"):
        measure_layers(make_model(), [])


def test_outputs_that_are_no_numbers_are_refused() -> None:
    model = make_model()
    with torch.no_grad():
        model.encoder.embedding.projection.weight.fill_(3e38)
    with pytest.raises(UserError, match="the model's outputs are no numbers, or infinite"):
        measure_layers(model, make_batches())


def test_the_table_has_a_row_for_each_layer_of_the_deepest_model() -> None:
    shallow = Layers(distances=[1.0], angles=[30.0], num_tokens=5)
    deep = Layers(distances=[2.0, 0.126], angles=[45.04, 8.0], num_tokens=5)
    assert tabulate_layers({"a": shallow, "b": deep}) == [
        {"layer": 1, "a: distance": "1.00", "a: angle": "30.0", "b: distance": "2.00", "b: angle": "45.0"},
        {"layer": 2, "a: distance": "", "a: angle": "", "b: distance": "0.13", "b: angle": "8.0"},
    ]


def test_the_figure_has_a_line_for_each_model_and_a_point_for_each_layer() -> None:
    measured = measure_layers(make_model(), make_batches())
    figure = draw_layers({"one": measured, "two": measured})
    for axes, values in zip(figure.axes, (measured.distances, measured.angles), strict=True):
        assert [line.get_xdata().tolist() for line in axes.lines] == [[1, 2, 3, 4]] * 2
        np.testing.assert_allclose(axes.lines[0].get_ydata(), values)
