import pytest

from litebert.tasks.classes import unknown_label
from litebert.tasks.quotes import LONGEST, quote, quote_some


@pytest.mark.parametrize("value", ["选择珠江花园的原因就是方便" * 500, ["word"] * 100, {"a": "b" * 100}])
def test_a_long_value_is_quoted_in_part_and_its_quote_is_closed(value: object) -> None:
    said = quote(value)
    assert len(said) == LONGEST
    assert said.startswith(repr(value)[:50]) and said.endswith("..." + repr(value)[-1])


def test_a_short_value_is_quoted_as_it_is() -> None:
    assert quote("x" * (LONGEST - 2)) == f"'{'x' * (LONGEST - 2)}'"
    assert quote(None) == "None" and quote("it's\t") == '"it\'s\\t"'


def test_of_many_values_eight_are_named_and_all_are_counted() -> None:
    assert quote_some(["a", "b"]) == "'a', 'b'" and quote_some([]) == ""
    assert quote_some(range(8)) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert quote_some(range(2000)) == "0, 1, 2, 3, 4, 5, 6, 7, ... 2,000 in all"


def test_an_unknown_label_is_told_in_a_sentence_however_long_labels_are() -> None:
    said = unknown_label("a review " * 700, [f"{number} {'a review ' * 700}" for number in range(2000)])
    assert len(said) < 700 and said.endswith("... 2,000 in all); correct it")
