"""The scores of questions about a paragraph: SQuAD 1.1, SQuAD 2.0, and CMRC 2018, which is DRCD's too.

The right answers and the predicted ones are texts by the questions' ids. Scores are from 0 to 100. A question without
a prediction counts as answered wrongly; a prediction for a question that was not asked does not count.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from litebert.config import require

Answers = Mapping[str, Sequence[str]]
"""All answers that count as right; none where a question has no answer in its paragraph."""

ARTICLE = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)

# Marks that CMRC's measure does not see. It sees all others: the narrow comma, full stop and brackets are tokens.
WITHOUT_CHINESE_PUNCTUATION = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
# A Chinese character, a word, or a mark. A word may hold a comma before a digit, and a full stop unless it is the last.
CHINESE_TOKEN = re.compile(
    r"""[一-龥]
    | (?: [^\s一-龥,."()\[\]{}<>;@\#$%&?!] | ,(?=\d) | \.(?![\s"')\]}>]*(?:[一-龥]|$)) )+
    | \S""",
    re.VERBOSE,
)


COUNTS = frozenset({"total", "HasAns_total", "NoAns_total"})
"""What stands among the scores of the official scripts, and says how many questions there are."""


class AnswerScore(NamedTuple):
    """How good one answer is."""

    exact: float
    """Whether it is a right answer: 100 or 0."""
    f1: float
    """How many tokens it has in common with a right one."""


WRONG = AnswerScore(0.0, 0.0)


def score_squad1(gold: Answers, predicted: Mapping[str, str]) -> dict[str, float]:
    """`exact`, `f1` and `total`, the number of questions, as the official script of SQuAD 1.1 gives them."""
    return summarize(
        score_answer(answers, predicted[question]) if question in predicted else WRONG
        for question, answers in gold.items()
    )


def score_squad2(gold: Answers, predicted: Mapping[str, str]) -> dict[str, float]:
    """What `score_squad1` gives, and the same for questions with an answer (`HasAns_`) and those without (`NoAns_`)."""
    scores = score_questions(gold, predicted)
    result = summarize(scores.values())
    for name, has_answer in (("HasAns", True), ("NoAns", False)):
        group = [scores[question] for question, answers in gold.items() if bool(answers) is has_answer]
        result |= {f"{name}_{key}": value for key, value in summarize(group).items()} if group else {}
    return result


def find_best_thresholds(
    gold: Answers, predicted: Mapping[str, str], no_answer: Mapping[str, float]
) -> dict[str, float]:
    """The best scores of SQuAD 2.0 that a threshold of `no_answer` can give, and those thresholds: `best_exact`,
    `best_exact_thresh`, `best_f1` and `best_f1_thresh`.

    `no_answer` says how much speaks against there being an answer: above the threshold there is none. Answers that
    another threshold has emptied stay empty.
    """
    missing = next((question for question in gold if question in predicted and question not in no_answer), None)
    require(missing is None, f"question {missing} has a prediction but no no-answer score; give one for each")
    scores = score_questions(gold, predicted)
    result: dict[str, float] = {}
    for name in AnswerScore._fields:
        values = {question: getattr(score, name) for question, score in scores.items()}
        best, threshold = find_best_threshold(values, gold, predicted, no_answer)
        result |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return result


def find_best_threshold(
    scores: Mapping[str, float], gold: Answers, predicted: Mapping[str, str], no_answer: Mapping[str, float]
) -> tuple[float, float]:
    """The best mean and its threshold, by one walk through the questions as the official script does it.

    Like the script it also stops between questions of the same `no_answer`, which no threshold can tell apart.
    """
    asked = [question for question in no_answer if question in gold and question in predicted]
    score = best = 100.0 * sum(not gold[question] for question in asked)
    # Nothing is answered below all of them. The script says 0 there, which is not below all if they are log-odds.
    threshold = min([0.0, *(math.nextafter(no_answer[question], -math.inf) for question in asked)])
    for question in sorted(asked, key=no_answer.__getitem__):
        score += scores[question] if gold[question] else -100.0 * bool(predicted[question])
        if score > best:
            best, threshold = score, no_answer[question]
    return best / len(gold), threshold


def score_cmrc(gold: Answers, predicted: Mapping[str, str]) -> dict[str, float]:
    """`exact`, `f1`, their `average`, and `total`, as the official script of CMRC 2018 gives them.

    That script cuts what is not Chinese with NLTK; we cut it alike but for a few answers in ten thousand.
    """
    scores = summarize(
        score_chinese_answer(answers, predicted[question]) if question in predicted else WRONG
        for question, answers in gold.items()
    )
    return scores | {"average": (scores["exact"] + scores["f1"]) / 2}


def summarize(scores: Iterable[AnswerScore]) -> dict[str, float]:
    scores = list(scores)
    require(scores, "there is nothing to score; name a split whose questions have answers")
    means = (math.fsum(column) / len(scores) for column in zip(*scores, strict=True))
    return dict(zip(AnswerScore._fields, means, strict=True)) | {"total": len(scores)}


def score_questions(gold: Answers, predicted: Mapping[str, str]) -> dict[str, AnswerScore]:
    """By the rules of SQuAD 2.0, before any threshold."""
    return {
        question: score_answer_or_none(answers, predicted[question]) if question in predicted else WRONG
        for question, answers in gold.items()
    }


def score_answer(answers: Sequence[str], predicted: str) -> AnswerScore:
    """An answer beside the right one it is most like, by the rules of SQuAD 1.1."""
    said = normalize_answer(predicted)
    rights = [normalize_answer(answer) for answer in answers]
    overlap = max((token_f1(right.split(), said.split()) for right in rights), default=0.0)
    return AnswerScore(100.0 * (said in rights), overlap)


def score_answer_or_none(answers: Sequence[str], predicted: str) -> AnswerScore:
    """An answer by the rules of SQuAD 2.0: where no right answer has a word in it, the right one has none."""
    if rights := [answer for answer in answers if normalize_answer(answer)]:
        return score_answer(rights, predicted)
    silence = 100.0 * (not normalize_answer(predicted))
    return AnswerScore(silence, silence)


def normalize_answer(text: str) -> str:
    """What SQuAD compares of an answer: its words without capitals, punctuation and articles."""
    return " ".join(ARTICLE.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def token_f1(first: Sequence[str], second: Sequence[str]) -> float:
    """Of the tokens that two texts have in common, wherever they are."""
    common = (Counter(first) & Counter(second)).total()
    return 200.0 * common / max(1, len(first) + len(second))


def score_chinese_answer(answers: Sequence[str], predicted: str) -> AnswerScore:
    """An answer beside the right one it is most like, by the rules of CMRC 2018."""
    said = normalize_chinese(predicted)
    rights = [normalize_chinese(answer) for answer in answers]
    overlap = max((run_f1(cut_chinese(right), cut_chinese(said)) for right in rights), default=0.0)
    return AnswerScore(100.0 * (said in rights), overlap)


def normalize_chinese(text: str) -> str:
    return text.lower().strip().translate(WITHOUT_CHINESE_PUNCTUATION)


def cut_chinese(text: str) -> list[str]:
    """Each Chinese character is a token, and each word between them."""
    return CHINESE_TOKEN.findall(text)


def run_f1(first: Sequence[str], second: Sequence[str]) -> float:
    """Of the longest run of tokens that two texts have in common."""
    common = SequenceMatcher(None, first, second, autojunk=False).find_longest_match().size
    return 200.0 * common / max(1, len(first) + len(second))
