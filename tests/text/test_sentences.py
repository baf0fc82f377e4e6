import gzip
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litebert.text.sentences import split_sentences

# A bar stands where a sentence ends and another begins.
ENGLISH = """
The cat sat.| The dog ran.
Is it true?| Yes!| No.
What?!| He did not.
No!!!| Stop it.
Mr. Smith met Mrs. Jones.| They talked.
Dr. Who is a series.| Prof. Brown wrote it.
St. John's is a city.
The play is by J. R. R. Tolkien and C.S. Lewis.
H. A. Rey drew it.| A. A. Milne wrote it.
He moved to the U.S. Navy.| She stayed.
He lives in the U.S.| The climate is mild.
It opened at 9 a.m. on Monday.
It closed at 5 p.m.| The staff left.
Fruit, e.g. Apples, i.e. Pomes, are sold.
Apples, pears, etc.| The list is long.
Apples, pears, etc., are sold.
Symphony No. 5 is famous.| No. 6 is not.
He said no.| Then he left.
See Fig. 3 and pp. 4 to 9 of Vol. II for this.
It is 3.14 m long.| It cost $2.50.
Version 2.0.1 is out.| Version 3 is not.
Visit https://example.com/a.html?b=1 now.| Then go.
The site is example.com.| It is new.
Yahoo! Inc. bought it.| Wow!| It did.
Acme Inc.| The company failed.
John Smith Jr.| Then came his son.
1. Introduction
II. Methods and materials
a. The first point.| It is clear.
It was 1984.| Nobody knew.
He was 25.| John was 30.
"Stop!" he cried.| "Why?" she asked.
"Stop!"| He ran.
He said “No.”| Then he left.
He said ‘No.’| Then he left.
(See below.)| Then go on.
It ended (in 1990).| Then it began.
Well... I think so.| Really...| That was it.
She waited . . . and then she left.
It ended. . . .| Then it began.
He came.[12]| She left.[3][4]
Smith v. The State was heard.
Maj. Gen. Joseph Hooker led.| He lost.
Smith et al. showed it.| Others did not.
Sept. 5 was warm.| Oct. 9 was cold.
Look here! – and there.
One.  |  Two.
the end. of it
MR. CAXTON spoke.
“Is it?”| – “It is.”| They agreed.
"""
EUROPEAN = """
Am 3. Oktober war es so weit.| Der Tag war schön.
Das 19. Jahrhundert endete.| Das 20. Jahrhundert begann.
Viele Tiere, z.B. Katzen, schlafen.| Hunde auch.
Viele Tiere, z. B. Katzen, schlafen.| Hunde auch.
Er sagte: „Komm her.“| Dann ging er.
»Komm her.«| Dann ging er.
Er ging. |»Wohin?« fragte sie.
Das gilt bzw. Es gilt nicht.
M. Dupont et Mme. Durand sont là.| Ils parlent.
J.-P. Sartre est né à Paris.| Il écrit.
« Bonjour. »| Il sort.
« Où ? » demanda-t-elle.| Il sortit.
El Sr. García llegó.| La Sra. López no.
César est né en 100 av. J.-C. à Rome.| Il est mort en 44 av. J.-C. aussi.
Los EE. UU. son un país.| Vive en la Av. Libertad.| Véase la pág. 3 del libro.
Am 24. 12. 2020 war Heiligabend.| Am 1. 5. war Feiertag.
Er wohnt im 3. Stock.| Sie wohnt in der Hauptstr. 5 nebenan.| Die Hauptstr. ist lang.
Vgl. Müller bei der Fa. Meier.| Es war 1990.| 12 Leute kamen.
¿Qué pasa?| ¡Nada!| ¿De verdad?
Él vino.| Ella se fue.
"""
CHINESE = """
你好。|我很好。
真的吗？|是的！|好。
什么？！|不会吧！！！
他说：“你好。”|然后走了。
他說：「你好！」|然後走了。
他說：『好。』」|然後走了。
他说“你好！”，然后走了。
「為什麼？」的問題很難。
他喊「走！」、「快！」。|沒有人動。
結束。|“你好”，他說。
结束。|"你好。"|他走了。
《誰是被害者？》是一部電視劇。|它很好看。
《这本轻小说真厉害！》获得第一名。
他（生於？）不知去向。
（見下文。）|他走了。
李某（？－1950年），畫家。
现任领导人是K. R. Narayanan和C. P. John。|他来了。
由Dr. Dre制作。|他和Mr. Smith走了。
他不知道……|後來他知道了。
我……我不知道。
他等了很久……」|她說。
第一；第二；第三。|完。
圆周率是3.14。|它是无理数。
1. 世界真細小
2.葉梓夕
我来了!|你呢?|我也来了。
Yahoo!奇摩是網站。|它很大。
J.K.羅琳寫了書。|書很好。
他走了。 |她来了。
｡は半角。|次。
"""
JAPANESE = """
私は学生です。|彼は先生です。
「行く。」と彼は言った。|私は黙った。
本当ですか？|はい、本当です。
『けいおん！』は人気がある。|見た。
「そうだ！」|彼は走った。
値は３．１４である．|次に述べる．
Ａ．はじめに
"""
MIXED = """
他用 Python 3.11 写代码。|It works.| 很好。
He said 你好。|Then he left.| 再见！
GPT是什么？|It is a model.| 它很大。
I like 《活着》.| It is good.
他在U.S. Navy工作。|iPhone很贵。
价格是$9.99。|e.g. 这个。
"""


def cases() -> list[str]:
    tables = (ENGLISH, EUROPEAN, CHINESE, JAPANESE, MIXED)
    return [line for table in tables for line in table.strip().split("\n")]


@pytest.mark.parametrize("case", cases())
def test_a_paragraph_is_cut_between_its_sentences(case: str) -> None:
    expected = [sentence.strip() for sentence in case.split("|")]
    assert split_sentences(case.replace("|", "")) == expected


def test_the_table_has_sixty_cases_and_more() -> None:
    assert len(set(cases())) >= 60


def test_space_alone_is_no_sentence() -> None:
    assert split_sentences("") == split_sentences(" \u3000\t") == []


@given(st.text() | st.text(st.sampled_from("aA1 .!?…。！？」”\"'）》»[].\xa0\u2028\n的とI我")))
def test_nothing_but_space_is_lost(text: str) -> None:
    sentences = split_sentences(text)
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)
    assert "".join("".join(sentences).split()) == "".join(text.split())


@given(st.text(st.sampled_from('aA .!?。！」"我')))
def test_a_sentence_stands_in_its_paragraph_as_it_is(text: str) -> None:
    position = 0
    for sentence in split_sentences(text):
        found = text.index(sentence, position)
        assert not text[position:found].strip()
        position = found + len(sentence)


def test_a_sentence_without_end_stays_whole() -> None:
    sentence = "word " * 50_000 + "end."
    assert split_sentences(sentence) == [sentence]


@pytest.mark.parametrize(
    ("name", "shortest", "longest"),
    [("wiki_en.txt.gz", 90, 160), ("novels_en.txt.gz", 50, 130), ("wiki_zh.txt.gz", 20, 60)],
)
def test_real_sentences_have_the_length_of_sentences(data: Path, name: str, shortest: int, longest: int) -> None:
    with gzip.open(data / "text" / name, "rt", encoding="utf-8") as file:
        paragraphs = [line for line in itertools.islice(file, 5000) if line.strip()]
    split = [split_sentences(paragraph) for paragraph in paragraphs]
    sentences = [sentence for paragraph in split if len(paragraph) > 1 for sentence in paragraph]
    assert shortest < sum(map(len, sentences)) / len(sentences) < longest
    assert sum(len(sentence) < 4 for sentence in sentences) < 0.01 * len(sentences)


@pytest.mark.parametrize("stop", list(".!?…。"))
def test_a_long_run_of_stops_takes_no_longer_than_other_text(stop: str) -> None:
    """Tried from each of its stops, a run of a million would take hours."""
    assert "".join(split_sentences("a" + stop * 1_000_000 + "b")) == "a" + stop * 1_000_000 + "b"


def test_neither_do_spaced_dots_at_the_end() -> None:
    assert split_sentences("a" + 200_000 * " .") == ["a" + 200_000 * " ."]
