"""RACE: questions about a passage, each with four options (Lai et al. 2017).

A question is four samples, `[CLS] passage [SEP] question with option [SEP]`, and a model gives each a number. The
data is read as it is handed out (`train/middle/*.txt`, one object in each file), as the released ALBERT code had it
(`train/middle/all.txt`, one object on each line), or as one `train.jsonl` of both levels.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from litebert.config import nearest, require
from litebert.files import exists, find_files
from litebert.tasks.quotes import quote
from litebert.tasks.records import parse_number, read_records, write_records
from litebert.tasks.tables import is_folder, parse_object, read_lines
from litebert.tasks.task import (
    SPLITS,
    AlwaysAnswered,
    Encoded,
    Limits,
    Prediction,
    Predictions,
    Question,
    Sample,
    Task,
    check_ids,
    check_predicted,
    join_segments,
    softmax,
)
from litebert.text.formats import DECOMPRESSORS
from litebert.text.vocabulary import Vocabulary
from litebert.text.word_table import Tokens

LEVELS = ("middle", "high")
LETTERS = ("A", "B", "C", "D")
# RACE writes a blank as one underscore between spaces; other makers draw it longer.
BLANK = re.compile(r"_+")


class ChoiceExample(NamedTuple):
    """One question about a passage."""

    id: str
    place: str
    passage: str
    question: str
    options: tuple[str, ...]
    answer: str | None
    """A letter; None if it is not known."""
    level: str = ""
    """Of which school the question is: `middle`, `high`, or nothing if that is not said."""

    @property
    def gold(self) -> str | None:
        return self.answer

    def without_gold(self) -> Self:
        return self._replace(answer=None)


@dataclass(frozen=True, slots=True)
class ChoiceTask(AlwaysAnswered):
    """RACE, or one of its two levels."""

    name: str
    levels: tuple[str, ...]

    @property
    def metric(self) -> str:
        return "accuracy"

    @property
    def splits(self) -> Mapping[str, tuple[str, ...]]:
        return SPLITS

    def read(self, data: str | Path, split: str) -> list[ChoiceExample]:
        """Only the questions of `test` may lack their answers."""
        examples: list[ChoiceExample] = []
        for path in find_sources(str(data), split, self.levels):
            for number, line in read_lines(path):
                if line.strip():
                    examples += self.pick(parse_passage(path, number, line))
        require(examples, f"{data} has no questions of {self.name} for {split}; name another folder or file")
        check_ids(examples)
        if split != "test":
            check_answered(examples)
        return examples

    def pick(self, examples: list[ChoiceExample]) -> list[ChoiceExample]:
        """Those among the questions about a passage that are of this task."""
        if self.levels == LEVELS:
            return examples
        for example in examples:
            require(example.level, f"{example.place}: no 'level', which {self.name} needs; say {' or '.join(LEVELS)}")
        return [example for example in examples if example.level in self.levels]

    def is_labelled(self, examples: Sequence[ChoiceExample]) -> bool:
        return all(example.answer is not None for example in examples)

    def known_question(self) -> dict[str, Any]:
        return {"kind": "choice"}

    def ask(self, examples: Sequence[ChoiceExample]) -> Question:
        return Question(kind="choice", num_choices=len(LETTERS))

    def with_labels(self, labels: tuple[str, ...]) -> "ChoiceTask":
        return self

    def encode(
        self, examples: Sequence[ChoiceExample], vocabulary: Vocabulary, question: Question, limits: Limits
    ) -> Encoded:
        for example in examples:
            check_options(example, question.num_choices)
        numbers = number_passages(examples)
        # Arrays: lists of the tokens of all passages would take nine times the memory.
        passages = list(vocabulary.encode_each(list(numbers)))
        texts = [fill_blank(example.question, option) for example in examples for option in example.options]
        options = list(vocabulary.encode_each(texts))
        samples: list[Sample] = []
        for number, example in enumerate(examples):
            passage = passages[numbers[example.passage]].tolist()
            for letter in LETTERS[: question.num_choices]:
                text = options[len(samples)][-longest_choice(limits) :].tolist()
                token_ids, second = join_segments(vocabulary, passage[: limits.length - 3 - len(text)], text)
                label = None if example.answer is None else int(letter == example.answer)
                samples.append(Sample(token_ids, second, number, label))
        places = [numbers[examples[sample.example].passage] for sample in samples]
        return Encoded(samples, describe_cuts(passages, np.array(places, np.int64), options, limits))

    def decode(
        self, examples: Sequence[ChoiceExample], samples: Sequence[Sample], outputs: Sequence[Any], question: Question,
        limits: Limits,
    ) -> Predictions:  # fmt: skip
        probabilities_QC = softmax(np.asarray(outputs, np.float64).reshape(-1, question.num_choices))
        return {
            examples[sample.example].id: Prediction(LETTERS[row.argmax()], tuple(row.tolist()))
            for sample, row in zip(samples[:: question.num_choices], probabilities_QC, strict=True)
        }

    def score(self, examples: Sequence[ChoiceExample], predictions: Predictions) -> dict[str, float]:
        """The accuracy, and with both levels also that of each, as the paper has it."""
        require(examples, f"there are no questions of {self.name} to score")
        check_predicted(examples, predictions, at_least=1)
        scores = {"accuracy": measure_accuracy(examples, predictions)}
        for level in self.levels if len(self.levels) > 1 else ():
            if chosen := [example for example in examples if example.level == level]:
                scores[f"accuracy_{level}"] = measure_accuracy(chosen, predictions)
        return scores

    def write_predictions(
        self, folder: Path, split: str, examples: Sequence[ChoiceExample], predictions: Predictions
    ) -> list[Path]:
        """JSON lines with `id`, `prediction` and `probabilities`: RACE has no form of its own for them."""
        return [write_records(folder, self.name, split, examples, predictions)]

    def read_predictions(self, path: Path) -> Predictions:
        """JSON lines as we write them, a JSON object of ids and letters, or a table with the columns id and
        prediction."""
        predictions: Predictions = {}
        for place, id_, letter, numbers in read_records(path):
            require(
                letter in LETTERS, f"{place}: the prediction is {quote(letter)}; it must be one of {', '.join(LETTERS)}"
            )
            # A list only where it is JSON: a table has no cell for them.
            listed = isinstance(numbers, list) and len(numbers) in (0, len(LETTERS))
            require(listed, f"{place}: the probabilities are {quote(numbers)}; there must be one for each option")
            predictions[id_] = Prediction(letter, tuple(parse_number(place, number) for number in numbers))
        return predictions


def fill_blank(question: str, option: str) -> str:
    """The option in each of the question's blanks, or after a question without any."""
    return BLANK.sub(lambda _: option, question) if "_" in question else f"{question} {option}"


def number_passages(examples: Sequence[ChoiceExample]) -> dict[str, int]:
    """Each passage once, since several questions are about it."""
    return {passage: number for number, passage in enumerate(dict.fromkeys(example.passage for example in examples))}


def longest_choice(limits: Limits) -> int:
    return min(limits.choice_length, limits.length - 3)


def describe_cuts(
    passages: Sequence[Tokens], places_S: NDArray[np.int64], options_S: Sequence[Tokens], limits: Limits
) -> list[str]:
    """How much is left out, from the texts as they were and the number of each sample's passage."""
    lengths_P = np.array([len(passage) for passage in passages], np.int64)
    options_lengths_S = np.array([len(option) for option in options_S], np.int64)
    room_S = limits.length - 3 - np.minimum(options_lengths_S, longest_choice(limits))
    lost_P = np.zeros_like(lengths_P)
    np.maximum.at(lost_P, places_S, lengths_P[places_S] - room_S)
    notes = []
    if num_cut := np.count_nonzero(lost_P):
        share = 100 * (lost_P[lost_P > 0] / lengths_P[lost_P > 0]).mean()
        cut = (
            f"{num_cut:,} of {len(passages):,} passages were cut to fit in {limits.length} tokens with their questions"
        )
        notes.append(f"{cut}, and lost {share:.1f} % of their tokens on average, at the end")
    if num_cut := np.count_nonzero(options_lengths_S > longest_choice(limits)):
        cut = f"{num_cut:,} of {len(options_S):,} questions with an option were cut to their last"
        notes.append(f"{cut} {longest_choice(limits)} tokens")
    return notes


def measure_accuracy(examples: Sequence[ChoiceExample], predictions: Predictions) -> float:
    check_answered(examples)
    right = [e.id in predictions and predictions[e.id].answer == e.answer for e in examples]
    return 100 * sum(right) / len(right)


def find_sources(data: str, split: str, levels: Sequence[str]) -> list[str]:
    """The files of a split: a file that is named itself, one of both levels, or those in the levels' folders."""
    require(split in SPLITS, f"RACE has no split {split!r}{nearest(split, SPLITS)}")
    if not is_folder(data, (".jsonl", ".txt")):
        return [data]
    folder = data.rstrip("/")
    both = [f"{folder}/{split}.jsonl{compression}" for compression in ("", *DECOMPRESSORS)]
    if found := next(filter(exists, both), None):
        return [found]
    said = f"{data} has neither {split}.jsonl nor the folder {split}; name the folder that has one of them"
    require(exists(f"{folder}/{split}"), said)
    return [path for level in levels for path in find_level(f"{folder}/{split}/{level}")]


def find_level(folder: str) -> list[str]:
    """The `all.txt` of a level, which users made of all its other files, or else those."""
    everything = f"{folder}/all.txt"
    return [everything] if exists(everything) else [path for path in find_files(folder) if path.endswith(".txt")]


def parse_passage(path: str, number: int, line: str) -> list[ChoiceExample]:
    """The questions about the passage on a line of a file."""
    place = f"{path}, line {number}"
    record = parse_object(place, line)
    name = str(record.get("id") or record.get("file") or "")
    missing = [field for field in ("article", "questions", "options") if record.get(field) is None]
    missing += [] if name else ["id"]
    require(not missing, f"{place}: there is no {', no '.join(map(repr, missing))}; add what is missing")
    passage, level = record["article"], find_level_name(place, record, path, name)
    require(isinstance(passage, str), f"{place}: 'article' is a {type(passage).__name__}; it must be a string")
    questions, options = record["questions"], record["options"]
    check_lists(place, questions=questions, options=options)
    answers = [None] * len(questions) if record.get("answers") is None else record["answers"]
    check_lists(place, questions=questions, answers=answers)
    return [
        make_example(f"{name}-{n}", f"{place}, question {n}", passage, *parts, level)
        for n, parts in enumerate(zip(questions, options, answers, strict=True), 1)
    ]


def make_example(
    id_: str, place: str, passage: str, question: Any, options: Any, answer: Any, level: str
) -> ChoiceExample:
    texts = [question, *(options if isinstance(options, list) else [options])]
    wrong = next((text for text in texts if not isinstance(text, str)), None)
    require(all(isinstance(text, str) for text in texts), f"{place}: {quote(wrong)} must be a string; correct it")
    example = ChoiceExample(id_, place, passage, question, tuple(texts[1:]), answer, level)
    check_options(example, len(LETTERS))
    return example


def check_lists(place: str, **fields: Any) -> None:
    """Refuses fields of a passage that do not have an entry for each question."""
    for name, values in fields.items():
        said = f"{place}: {name!r} is a {type(values).__name__}; it must be a list with an entry for each question"
        require(isinstance(values, list), said)
    counts = " but ".join(f"{len(values)} {name}" for name, values in fields.items())
    require(
        len({len(values) for values in fields.values()}) == 1, f"{place}: there are {counts}; give each question one"
    )


def find_level_name(place: str, record: Mapping[str, Any], path: str, name: str) -> str:
    """The level that a passage says itself, or its folder, or the beginning of its id."""
    if (level := record.get("level")) is not None:
        require(level in LEVELS, f"{place}: the level is {quote(level)}; it must be {' or '.join(LEVELS)}")
        return str(level)
    folder = Path(path).parent.name
    return folder if folder in LEVELS else next((known for known in LEVELS if name.startswith(known)), "")


def check_options(example: ChoiceExample, num_choices: int) -> None:
    place, num_options, letters = example.place, len(example.options), LETTERS[:num_choices]
    require(num_options == num_choices, f"{place}: there are {num_options} options; there must be {num_choices}")
    said = f"{place}: the answer is {quote(example.answer)}; it must be one of {', '.join(letters)}"
    require(example.answer is None or example.answer in letters, said)


def check_answered(examples: Sequence[ChoiceExample]) -> None:
    """For training and scoring."""
    secret = next((example for example in examples if example.answer is None), None)
    require(secret is None, f"{secret and secret.place}: there is no answer; add it, or name answered questions")


TASKS: dict[str, Task] = {
    "race": ChoiceTask("race", LEVELS),
    "race-middle": ChoiceTask("race-middle", ("middle",)),
    "race-high": ChoiceTask("race-high", ("high",)),
}
