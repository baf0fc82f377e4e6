import gzip
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.config import UserError
from litebert.tasks.answer_scores import (
    cut_chinese,
    find_best_thresholds,
    normalize_answer,
    normalize_chinese,
    run_f1,
    score_answer,
    score_answer_or_none,
    score_chinese_answer,
    score_cmrc,
    score_squad1,
    score_squad2,
    token_f1,
)

words = st.sampled_from(["a", "the", "An", "fox", "Fox,", "dog", "theme", "U.S.", ".", "—", "don't", "\t"])
texts = st.lists(words, max_size=5).map(" ".join)
tokens = st.lists(st.sampled_from("abc"), max_size=8)
chinese = st.text("中国人，《a1 .,", max_size=8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Eiffel\tTower!", "eiffel tower"),
        ("a theme of an anthem", "theme of anthem"),
        ("U.S. don't 1,000", "us dont 1000"),
        ("re-the-match", "rethematch"),  # punctuation goes first, and leaves no space
        ("the—end", "—end"),  # a dash is no punctuation of ASCII, but ends the article
        ("«The»", "« »"),
        ("An, a: THE.", ""),
    ],
)
def test_answers_are_compared_by_their_words(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


@settings(deadline=None)
@given(texts)
def test_what_is_normal_stays_so(text: str) -> None:
    normal = normalize_answer(text)
    assert normal == " ".join(normal.split()) == normalize_answer(text.upper())
    assert not {"a", "an", "the"} & set(normal.split())


@settings(deadline=None)
@given(tokens, tokens)
def test_f1_of_tokens_is_the_mean_of_precision_and_recall_and_the_same_from_either_side(
    first: list[str], second: list[str]
) -> None:
    left, common = list(second), 0
    for token in first:
        if token in left:
            left.remove(token)
            common += 1
    expected = 0.0
    if common:
        precision, recall = common / len(second), common / len(first)
        expected = 100 * 2 * precision * recall / (precision + recall)
    assert token_f1(first, second) == pytest.approx(expected) == token_f1(second, first)
    assert token_f1(first, second) == token_f1(first[::-1], second)


@settings(deadline=None)
@given(st.lists(texts, max_size=4), texts)
def test_a_right_answer_has_full_f1_and_more_right_answers_never_hurt(answers: list[str], predicted: str) -> None:
    score = score_answer_or_none(answers, predicted)
    assert 0.0 <= score.exact <= score.f1 <= 100.0
    if answers and any(map(normalize_answer, answers)):
        single = [score_answer_or_none([answer], predicted) for answer in answers if normalize_answer(answer)]
        assert score.exact == max(one.exact for one in single)
        assert score.f1 == max(one.f1 for one in single)
        assert score == score_answer([answer for answer in answers if normalize_answer(answer)], predicted)


def test_the_two_versions_of_squad_differ_where_an_answer_has_no_words() -> None:
    assert score_answer(["."], "the") == (100.0, 0.0)
    assert score_answer([".", "fox"], "") == (100.0, 0.0)
    assert score_answer_or_none(["."], "the") == (100.0, 100.0)
    assert score_answer_or_none([], "") == (100.0, 100.0)
    assert score_answer_or_none([], "fox") == (0.0, 0.0)
    assert score_answer_or_none([".", "fox"], "") == (0.0, 0.0)


GOLD = {"q1": ["the fox", "red fox"], "q2": ["dog"], "q3": [], "q4": []}


def test_questions_with_and_without_an_answer_are_scored_together_and_apart() -> None:
    scores = score_squad2(GOLD, {"q1": "a red Fox.", "q2": "big dog", "q3": "", "q4": "cat", "q5": "unasked"})
    assert scores == {
        "exact": 50.0,
        "f1": pytest.approx((100 + 200 / 3 + 100) / 4),
        "total": 4,
        "HasAns_exact": 50.0,
        "HasAns_f1": pytest.approx((100 + 200 / 3) / 2),
        "HasAns_total": 2,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
    }
    assert set(score_squad2({"q1": ["fox"]}, {})) == {
        "exact",
        "f1",
        "total",
        "HasAns_exact",
        "HasAns_f1",
        "HasAns_total",
    }


def test_a_missing_prediction_is_wrong_also_where_there_is_no_answer() -> None:
    assert score_squad1({"q1": ["fox"], "q2": ["dog"]}, {"q2": "dog"}) == {"exact": 50.0, "f1": 50.0, "total": 2}
    assert score_squad2(GOLD, {"q4": ""})["exact"] == 25.0
    assert score_squad2(GOLD, {"q4": ""})["NoAns_exact"] == 50.0
    assert find_best_thresholds(GOLD, {"q4": "fox"}, {"q4": 0.5})["best_exact"] == 25.0
    assert score_cmrc({"q1": ["狐"], "q2": ["狗"]}, {"q2": "狗"})["exact"] == 50.0


def silence(predicted: dict[str, str], no_answer: dict[str, float], threshold: float) -> dict[str, str]:
    return {question: "" if no_answer[question] > threshold else text for question, text in predicted.items()}


def test_above_the_threshold_nothing_is_answered() -> None:
    predicted = {"q1": "fox", "q2": "dog", "q3": "", "q4": "cat"}
    no_answer = {"q1": 0.1, "q2": 0.5, "q3": 0.6, "q4": 0.9}
    assert score_squad2(GOLD, silence(predicted, no_answer, 0.5))["exact"] == 100.0
    assert score_squad2(GOLD, silence(predicted, no_answer, 0.4))["HasAns_exact"] == 50.0
    assert score_squad2(GOLD, predicted)["NoAns_exact"] == 50.0
    assert find_best_thresholds(GOLD, predicted, no_answer) == {
        "best_exact": 100.0,
        "best_exact_thresh": 0.5,
        "best_f1": 100.0,
        "best_f1_thresh": 0.5,
    }


answered = st.lists(
    st.tuples(
        st.lists(texts.filter(normalize_answer), max_size=2),
        texts.filter(normalize_answer) | st.just(""),
        st.floats(-9, 9),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda question: question[2],
)


@settings(deadline=None)
@given(answered)
def test_no_threshold_is_better_than_the_best(questions: Sequence[tuple[list[str], str, float]]) -> None:
    gold = {str(number): answers for number, (answers, _, _) in enumerate(questions)}
    predicted = {str(number): text for number, (_, text, _) in enumerate(questions)}
    no_answer = {str(number): value for number, (_, _, value) in enumerate(questions)}
    best = find_best_thresholds(gold, predicted, no_answer)
    for name in ("exact", "f1"):
        reached = [
            score_squad2(gold, silence(predicted, no_answer, threshold))[name]
            for threshold in (-math.inf, *no_answer.values(), best[f"best_{name}_thresh"])
        ]
        assert best[f"best_{name}"] == pytest.approx(max(reached)) == pytest.approx(reached[-1])


def test_between_equal_odds_the_walk_stops_as_the_official_one_does() -> None:
    best = find_best_thresholds({"q1": ["fox"], "q2": []}, {"q1": "fox", "q2": "dog"}, {"q1": 0.5, "q2": 0.5})
    assert best["best_exact"] == 100.0 and best["best_exact_thresh"] == 0.5


def test_where_silence_is_best_the_threshold_is_zero_or_below_all_odds() -> None:
    gold, predicted = {"q1": [], "q2": []}, {"q1": "fox", "q2": "dog"}
    assert find_best_thresholds(gold, predicted, {"q1": 0.5, "q2": 0.7})["best_f1_thresh"] == 0.0
    threshold = find_best_thresholds(gold, predicted, {"q1": -3.0, "q2": 0.7})["best_f1_thresh"]
    assert threshold < -3.0 and threshold == pytest.approx(-3.0)


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(UserError, match="question q2 has a prediction but no no-answer score"):
        find_best_thresholds(GOLD, {"q1": "fox", "q2": "dog"}, {"q1": 0.5})
    for measure in (score_squad1, score_squad2, score_cmrc):
        with pytest.raises(UserError, match="nothing to score"):
            measure({}, {})


# Beside each text is what the official script makes of it, with NLTK.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("光荣和ω-Force", "光 荣 和 ωforce"),
        ("《战国无双3》（2009年）", "战 国 无 双 32009 年"),
        ("Albert Einstein生于1879", "albert einstein 生 于 1879"),
        ("1,000人,3.5%.", "1,000 人 ,3.5 % ."),
        ("henry a. walsh (jr.)", "henry a. walsh ( jr . )"),
        ("……是「」", "…… 是"),
        ("a,b K.F.C.是", "a , b k.f.c . 是"),
        (" ，。 ", ""),
    ],
)
def test_chinese_is_cut_in_characters_and_words(text: str, expected: str) -> None:
    assert cut_chinese(normalize_chinese(text)) == expected.split()


def test_the_chinese_measure_does_not_see_the_marks_of_its_script_and_sees_all_others() -> None:
    assert normalize_chinese("-:_*^/\\~`+= ，。：？！“”；’《》·、「」（）－～『』") == " "
    assert normalize_chinese(",.()‘…—'\"") == ",.()‘…—'\""


@settings(deadline=None)
@given(tokens, tokens)
def test_f1_of_runs_counts_the_longest_run_in_both(first: list[str], second: list[str]) -> None:
    runs = [
        {tuple(row[start:end]) for start in range(len(row)) for end in range(start + 1, len(row) + 1)}
        for row in (first, second)
    ]
    longest = max(map(len, runs[0] & runs[1]), default=0)
    expected = 200 * longest / (len(first) + len(second)) if longest else 0.0
    assert run_f1(first, second) == pytest.approx(expected) == run_f1(second, first)
    assert run_f1(first, second) <= token_f1(first, second)


def test_words_that_come_often_are_found_in_long_answers_too() -> None:
    first, second = ["甲", *["的"] * 300], ["乙", "丙", *["的"] * 300]
    assert run_f1(first, second) == pytest.approx(200 * 300 / 603)


def test_a_chinese_answer_is_scored_by_its_longest_right_run() -> None:
    assert score_chinese_answer(["任天堂游戏"], "任天堂的游戏") == (0.0, pytest.approx(200 * 3 / 11))
    assert score_chinese_answer(["甲", "《村雨城》"], "村雨城。") == (100.0, 100.0)
    assert score_chinese_answer(["BERT模型"], "bert模型") == (100.0, 100.0)
    assert score_chinese_answer(["《》"], "。") == (100.0, 0.0)
    scores = score_cmrc({"q1": ["村雨城"], "q2": ["甲乙丙"]}, {"q1": "村雨城", "q2": "甲"})
    assert scores == {"exact": 50.0, "f1": 75.0, "average": 62.5, "total": 2}


@settings(deadline=None)
@given(st.lists(chinese, min_size=1, max_size=3), chinese)
def test_a_right_chinese_answer_has_full_f1_if_it_has_a_token(answers: list[str], predicted: str) -> None:
    score = score_chinese_answer(answers, predicted)
    assert 0.0 <= score.f1 <= 100.0
    if score.exact and normalize_chinese(predicted).strip():
        assert score.f1 == 100.0


def read_gzip(path: Path) -> Any:
    with gzip.open(path) as file:
        return json.load(file)


def read_answers(squad: Mapping[str, Any]) -> dict[str, list[str]]:
    paragraphs = [paragraph for article in squad["data"] for paragraph in article["paragraphs"]]
    return {qa["id"]: [answer["text"] for answer in qa["answers"]] for each in paragraphs for qa in each["qas"]}


@pytest.mark.parametrize(
    ("system", "exact", "f1", "digits"),
    [
        ("v1.1-BERT-ensemble-google", 86.2, 92.2, 1),  # as the papers of BERT and ALBERT have it
        ("v1.1-logreg-baseline", 40, 51, 0),  # as the paper of SQuAD has it
        ("v2.0-BERT-single-google", 78.74, 81.78, 2),  # as the official script has it
    ],
)
def test_published_predictions_have_their_published_scores(
    data: Path, system: str, exact: float, f1: float, digits: int
) -> None:
    version = system[: len("v1.1")]
    gold = read_answers(read_gzip(data / f"squad/dev-{version}.json.gz"))
    score = score_squad1 if version == "v1.1" else score_squad2
    scores = score(gold, read_gzip(data / f"squad/predictions/{system}.json.gz"))
    assert (round(scores["exact"], digits), round(scores["f1"], digits)) == (exact, f1)
    assert scores["total"] == {"v1.1": 10570, "v2.0": 11873}[version]


@pytest.mark.parametrize("file", ["cmrc2018/cmrc2018_dev.json", "drcd/DRCD_dev.json"])
def test_the_real_chinese_answers_are_right(data: Path, file: str) -> None:
    gold = read_answers(json.loads((data / "zh" / file).read_text(encoding="utf-8")))
    scores = score_cmrc(gold, {question: answers[-1] for question, answers in gold.items()})
    assert scores == {"exact": 100.0, "f1": 100.0, "average": 100.0, "total": len(gold)}
    cut = score_cmrc(gold, {question: answers[0][1:] for question, answers in gold.items()})
    assert cut["exact"] < 10 and 40 < cut["f1"] < 95
