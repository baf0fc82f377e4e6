from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn
from transformers.models.xlnet.modeling_xlnet import (
    XLNetPoolerAnswerClass,
    XLNetPoolerEndLogits,
    XLNetPoolerStartLogits,
)

from litebert.batch import Batch
from litebert.config import UserError
from litebert.models.encoder import EncoderConfig
from litebert.models.heads import FORBIDDEN, Features, HeadConfig, HeadKind, Spans
from litebert.models.model import Model

CONFIG = EncoderConfig(
    vocab_size=61, embedding_size=16, hidden_size=32, num_layers=2, num_heads=4, feed_forward_size=64, num_positions=40,
    initializer_range=0.2,
)  # fmt: skip
BATCH = Batch.pack([[2, 9, 8, 3], [2, 9, 10, 11, 12, 13, 3], [2, 20, 21, 22, 3]])


def make_model(*heads: HeadConfig) -> Model:
    torch.manual_seed(0)
    return Model(CONFIG, heads).eval()


def test_the_masked_token_head_scores_predicted_positions_only_and_is_tied_to_the_table() -> None:
    model = make_model(HeadConfig(kind="masked_token"))
    everywhere_TV = model(BATCH).logits["masked_token"]
    assert everywhere_TV.shape == (16, 61)
    positions_P = torch.tensor([1, 6, 14])
    batch = Batch(
        lengths=BATCH.lengths,
        token_ids_T=BATCH.token_ids_T,
        segment_ids_T=BATCH.segment_ids_T,
        predicted_positions_P=positions_P,
    )
    torch.testing.assert_close(model(batch).logits["masked_token"], everywhere_TV[positions_P])
    assert sum(name.startswith("heads.masked_token") for name in model.state_dict()) == 5
    before = everywhere_TV[:, 60]
    with torch.no_grad():
        model.encoder.embedding.words.weight[60] += 1
    assert not torch.equal(model(BATCH).logits["masked_token"][:, 60], before)


@pytest.mark.parametrize(
    ("head", "shape"),
    [
        (HeadConfig(kind="pair"), (3, 2)),
        (HeadConfig(kind="pair", num_classes=3), (3, 3)),
        (HeadConfig(kind="classes", num_classes=5), (3, 5)),
        (HeadConfig(kind="classes", num_classes=1), (3, 1)),
        (HeadConfig(kind="choice"), (3, 1)),
        (HeadConfig(kind="token_classes", num_classes=7), (16, 7)),
        (HeadConfig(kind="span"), (16, 2)),
    ],
)
def test_each_head_scores_what_it_should(head: HeadConfig, shape: tuple[int, ...]) -> None:
    assert make_model(head)(BATCH).logits[head.kind].shape == shape


def test_classifier_dropout_is_on_fine_tuning_heads_alone() -> None:
    heads = [HeadConfig(kind="pair", dropout=0.5), HeadConfig(kind="classes", dropout=0.5)]
    model = make_model(*heads).train()
    first, second = model(BATCH).logits, model(BATCH).logits
    assert torch.equal(first["pair"], second["pair"])
    assert not torch.equal(first["classes"], second["classes"])


def test_names_that_no_config_knows_are_refused() -> None:
    with pytest.raises(UserError, match="^kind is 'clases'; it must be one of"):
        HeadConfig(kind="clases")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="^activation is 'gelu'; it must be one of"):
        EncoderConfig(activation="gelu")  # type: ignore[arg-type]


def test_two_heads_of_one_kind_are_refused() -> None:
    with pytest.raises(UserError, match="at most one head of each kind"):
        Model(CONFIG, [HeadConfig(kind="classes"), HeadConfig(kind="classes", num_classes=3)])


def test_tokens_given_twice_are_refused() -> None:
    model, batch = Model(CONFIG), Batch.pack([[1, 2]])
    ids = torch.tensor([[1, 2]])
    with pytest.raises(UserError, match="tokens twice"):
        model(batch, input_ids=ids)
    with pytest.raises(UserError, match="leave out attention_mask"):
        model(batch, torch.ones_like(ids))
    with pytest.raises(UserError, match="leave out attention_mask"):
        model(batch, token_type_ids=ids)


def test_a_model_without_a_pooler_refuses_heads_that_need_it() -> None:
    with pytest.raises(UserError, match="the heads classes read the pooled first token"):
        Model(CONFIG, [HeadConfig(kind="classes")], pooler=False)


@pytest.mark.parametrize("teacher_forced", [True, False])
def test_the_answerable_span_head_equals_xlnets(teacher_forced: bool) -> None:
    model = make_model(HeadConfig(kind="answerable_span"))
    head = model.heads["answerable_span"]
    torch.nn.init.normal_(head.end_norm.weight)
    features = model.encode(BATCH)
    allowed_T = torch.ones(16, dtype=torch.bool)
    allowed_T[[1, 5, 12]] = False
    starts_B = torch.tensor([2, 0, 3])

    spans = head(features, starts_B=starts_B if teacher_forced else None, allowed_T=allowed_T)

    start, end, answer = build_xlnet_head(head)
    hidden_BLD = BATCH.pad(features.hidden_TD)
    forbidden_BL = (~BATCH.pad(allowed_T)).float()
    start_logits_BL = start(hidden_BLD, p_mask=forbidden_BL)
    torch.testing.assert_close(spans.start_logits_BL, start_logits_BL, rtol=1e-5, atol=1e-5)
    if not teacher_forced:
        assert torch.equal(spans.starts_BS, start_logits_BL.topk(5, dim=-1).indices)
    for number in range(spans.starts_BS.shape[1]):
        ends_BL = end(hidden_BLD, start_positions=spans.starts_BS[:, number], p_mask=forbidden_BL)
        allowed_BL = forbidden_BL == 0
        torch.testing.assert_close(
            spans.end_logits_BSL[:, number][allowed_BL], ends_BL[allowed_BL], rtol=1e-5, atol=1e-5
        )
        assert (spans.end_logits_BSL[:, number][~allowed_BL] < -1e29).all()
    expected_BD = torch.einsum("bl,bld->bd", start_logits_BL.softmax(-1), hidden_BLD)
    absence_B = answer(hidden_BLD, start_states=expected_BD, cls_index=torch.zeros(3, dtype=torch.long))
    torch.testing.assert_close(spans.unanswerable_B, absence_B, rtol=1e-5, atol=1e-5)


def build_xlnet_head(head: torch.nn.Module) -> tuple[torch.nn.Module, torch.nn.Module, torch.nn.Module]:
    config = transformers.XLNetConfig(d_model=32, n_head=4, layer_norm_eps=1e-12)
    start, end, answer = XLNetPoolerStartLogits(config), XLNetPoolerEndLogits(config), XLNetPoolerAnswerClass(config)
    start.dense.load_state_dict(head.start.state_dict())
    end.dense_0.load_state_dict(head.end_transform.state_dict())
    end.LayerNorm.load_state_dict(head.end_norm.state_dict())
    end.dense_1.load_state_dict(head.end.state_dict())
    answer.dense_0.load_state_dict(head.answer_transform.state_dict())
    answer.dense_1.load_state_dict(head.answer.state_dict())
    return start, end, answer


def test_answerable_spans_come_out_of_a_plain_call() -> None:
    spans = make_model(HeadConfig(kind="answerable_span"))(BATCH).logits["answerable_span"]
    assert isinstance(spans, Spans)
    assert spans.end_logits_BSL.shape == (3, 5, 7) and spans.unanswerable_B.shape == (3,)


def test_answerable_spans_are_as_wide_as_padded_ids() -> None:
    model = make_model(HeadConfig(kind="answerable_span"))
    packed = model(BATCH).logits["answerable_span"]
    ids = torch.nn.functional.pad(BATCH.pad(BATCH.token_ids_T), (0, 3))
    mask = torch.arange(10) < torch.tensor(BATCH.lengths)[:, None]
    padded = model(ids, mask.long()).logits["answerable_span"]
    for ours, theirs in (
        (padded.start_logits_BL, packed.start_logits_BL),
        (padded.end_logits_BSL, packed.end_logits_BSL),
    ):
        assert ours.shape[-1] == 10 and (ours[..., 7:] == FORBIDDEN).all()
        torch.testing.assert_close(ours[..., :7], theirs)


def test_heads_can_be_called_one_by_one() -> None:
    model = make_model(HeadConfig(kind="masked_token"), HeadConfig(kind="pair"))
    features = model.encode(BATCH)
    assert isinstance(features, Features)
    assert torch.equal(model.heads["pair"](features), model(BATCH).logits["pair"])


PREDICTED = replace(BATCH, predicted_positions_P=torch.tensor([1, 6, 14]))


@pytest.mark.parametrize(
    ("kinds", "batch", "all_of_them"),
    [
        (["masked_token", "pair"], PREDICTED, False),
        (["masked_token"], PREDICTED, False),
        (["masked_token", "pair"], BATCH, True),
        (["classes"], BATCH, False),
        (["choice"], BATCH, False),
        (["classes", "token_classes"], BATCH, True),
        (["span"], BATCH, True),
        (["answerable_span"], BATCH, True),
    ],
)
def test_the_last_layer_runs_for_the_tokens_that_are_read(
    kinds: list[HeadKind], batch: Batch, all_of_them: bool
) -> None:
    model = make_model(*(HeadConfig(kind=kind) for kind in kinds))
    rows = []
    model.encoder.feed_forwards[0].register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    features = model.encode(batch)
    predicted = 3 if "masked_token" in kinds else 0
    assert rows == [batch.num_tokens, batch.num_tokens if all_of_them else batch.num_sequences + predicted]
    assert model.reads_all(batch) == all_of_them == (features.hidden_TD is not None)
    for kind, logits in model(batch).logits.items():
        torch.testing.assert_close(model.heads[kind](features), logits, rtol=1e-5, atol=1e-5)


def test_a_model_without_heads_or_pooler_still_encodes_all() -> None:
    torch.manual_seed(0)
    features = Model(CONFIG, pooler=False).encode(BATCH)
    assert features.hidden_TD is not None and features.hidden_TD.shape == (16, 32)
    assert features.pooled_BD is None and features.predicted_PD is None


class Adapter(nn.Module):
    """What one puts in the place of a layer to train beside it, with the layer's weights for all to see."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer, self.weight, self.bias = layer, layer.weight, layer.bias
        self.beside = nn.Linear(layer.in_features, layer.out_features)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(values) + self.beside(values)


def test_adapters_and_hooks_are_not_passed_by() -> None:
    model = make_model(HeadConfig(kind="masked_token"), HeadConfig(kind="pair"))
    attention, feed_forward = model.encoder.attentions[0], model.encoder.feed_forwards[0]
    attention.query_key_value, feed_forward.down = Adapter(attention.query_key_value), Adapter(feed_forward.down)
    for kind, logits in model(PREDICTED).logits.items():
        torch.testing.assert_close(model.heads[kind](model.encode(PREDICTED)), logits, rtol=1e-5, atol=1e-5)
    model.encode(PREDICTED).pooled_BD.sum().backward()
    for adapter in (attention.query_key_value, feed_forward.down):
        assert adapter.beside.weight.grad is not None and adapter.beside.weight.grad.any()

    hooked = make_model(HeadConfig(kind="pair"))
    calls: list[int] = []
    for layer in (hooked.encoder.attentions[0].query_key_value, hooked.encoder.feed_forwards[0].down):
        layer.register_forward_hook(lambda *_: calls.append(1))
    hooked.encode(BATCH)
    assert len(calls) == 2 * CONFIG.num_layers
