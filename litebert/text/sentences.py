"""Paragraphs -> sentences, for Latin scripts and for Chinese and Japanese, also within one text.

A wide stop (。！？) ends a sentence where it stands. A narrow stop (. ! ?) may end one where space follows; what comes
after it and, for a full stop, the word before it decide. Nothing is lost but the space between sentences.
"""

import re


def words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# A stop, with more of them and what closes quotes and brackets; then space, or something wide on either side. In German
# “ and « close: a quote between a stop and a space is always taken for a closing one.
CANDIDATE = re.compile(
    r"""[.!?…。｡！？．] (?<![.!?…。｡！？．]{2})  # the first of several, else a run of them would be tried from each
        (?: [.!?…。｡！？”’」』）】〕》〉"')\]] | [“‘«](?=\s) | \s»(?=\s) | \s[.…]+(?![^\s.…”"')\]]) | \[\d+\] )*+
        (?: \s+ | (?<=[^.!?]) | (?=[⺀-﻿]) | \Z )  # the end too, else spaced dots before it would be tried from each
        """,
    re.VERBOSE,
)
NARROW_STOPS = frozenset(".!?")
WIDE_STOPS = frozenset("。｡！？")
OTHER_STOPS = frozenset("…．")
QUOTES = frozenset("”’」』）】〕》〉\"')]“‘«»[")
"""What may belong to a stop before it."""
WIDE = ("⺀", "\ufeff")
"""The first and the last of the wide characters."""
CLOSERS = frozenset("”’」』】〕\"')]")
# After a stop these go on with the sentence; after a stop and a closing quote so do the particles and conjunctions that
# make the quote a part of a larger sentence: 「行く。」と言った, 「為什麼？」的問題.
CONTINUATIONS = frozenset("、，；：,;:）)》〉を－～")
CONTINUATIONS_OF_QUOTES = CONTINUATIONS | frozenset("的等之與与和及はがのにとへ")

# With its full stop: "A." is an initial, "A" begins a sentence.
NEXT_WORD = re.compile(r"[^\w\s]*\s*(\w*\.?)")
UP_TO_WIDE = re.compile(r".*[⺀-￿]", re.DOTALL)
# One letter, or letters with full stops, and maybe a hyphen or a space that does not break, between them: J, U.S, J.-P.
INITIALS = re.compile(r"(?:[^\W\d_]\.[-\xa0\u202f]?)*[^\W\d_]")
# The rest of a date in German, and its beginning: am 24. 12. 2020.
DATE = re.compile(r"\d{1,2}\.(?:\d{4})?(?!\d)")
DATE_BEFORE = re.compile(r"\b\d{1,2}\.\s?\d{1,2}$")
LABEL = re.compile(r"\d+|[IVXLC]+|[A-Za-z]")
NUMBER = re.compile(r"\d|[IVXLC]+\b")
ELLIPSES = ("…", "..", ". .", ". …")

# Never the last word of a sentence: in English, German, French, and Spanish, Portuguese and Italian.
NEVER_LAST = words("""
    Mr Mrs Ms Messrs Mx MR MRS MS Dr Drs DR Prof Rev Fr Hon Gov Sen Rep Pres Gen Maj Col Lt Capt Cpt Cmdr Cdr Adm Sgt
    Cpl Pvt Pte Brig Insp Supt Mgr Msgr St Sts Mt Ft vs viz cf approx ca esp incl e.g i.e eg ie v
    Hr Hrn Frl Fa Dipl Ing bzw Bzw vgl Vgl Ca sog evtl ggf inkl bspw z.B d.h u.a v.a z.T u.U i.d.R
    MM Mme Mmes Mlle Mlles Ste av apr Av c.-à-d p.ex
    Sra Sras Srta Sres Dra Dña Uds EE p.ej Avda Sig Dott Avv
""")
# The last word of a sentence only if a word that begins sentences follows.
RARELY_LAST = words("""
    etc al Inc Ltd Co Corp Bros Cie Jr Sr Esq Ave Blvd Rd Dept Univ Assn Ed Eds ed eds trans Ph.D M.Sc B.Sc
    Jan Feb Apr Jun Jul Aug Sep Sept Oct Nov Dec usw Str Jh geb gest Chr MwSt Ud UU
""")
# Goes with a number that follows; otherwise a word like others.
NUMBERED = words("""
    No Nos Nr Núm Fig Figs Vol Vols Ch Chap Sec Sect Art Arts Eq Eqs Abb Bd Op
    no nos nr núm fig figs vol vols p pp pg pág págs Pág Págs ch chap sec sect art arts eq eqs op
""")
SPECIAL = NEVER_LAST | RARELY_LAST | NUMBERED
# Begins sentences, and no names: in English, German, French and Spanish.
STARTERS = words("""
    A According After All Also Although Among An And Another As At Because Before Between Both But By Despite During
    Each Every For From He Her Here His How However I If In It Its Later Like Many Most My No Not Now On Once One Only
    Other Our Over Several She Since So Some Such That The Their Then There These They This Those Though Thus To Today
    Under Unlike Until We What When Where Whether Which While Who Why With Without You Your
    Aber Am Auch Auf Bei Bis Da Danach Das Dem Den Der Die Diese Dieser Dieses Durch Ein Eine Er Es Für Ich Ihr Ihre Im
    Mit Nach Sein Seine Sie Und Unter Von Wir Zu Zur Zum
    Ce Ces Cet Cette Dans Elle Elles En Il Ils Les Mais Nous On Pour Une Vous
    Ella Ellos Entre Esta Este Esto Pero Por Se Su Sus Una Yo
""")
# An ordinal number in German ends in a full stop: am 3. Oktober.
AFTER_ORDINALS = words("""
    Januar Februar März April Mai Juni Juli August September Oktober November Dezember Jahrhundert Jahrhunderts
    Weltkrieg Weltkriegs Auflage Platz Tag Jahr Mal Geburtstag Lebensjahr Bundesliga Kapitel Klasse Stock Etage Armee
    Liga Runde Spieltag Teil Akt Satz Jahrgang Staffel Sitzung Bezirk Reich Republik Quartal Halbjahr Rang Stelle
""")
STREET = ("str", "Str")
# Names whose exclamation mark ends nothing.
EXCLAIMED_NAMES = words("Yahoo Jeopardy Wham Joomla")


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, none of them empty, with the stops, quotes and brackets that end them."""
    text = paragraph.strip()
    length, start = len(text), 0
    sentences = []
    for match in CANDIDATE.finditer(text):
        stop, end = match.span()
        if start < stop and end < length and ends_sentence(text, start, stop, end):
            if text[end - 1] == '"' and opens_quote(text, end - 1):
                end -= 1
            sentences.append(text[start:end].rstrip())
            start = end
    if text:
        sentences.append(text[start:])
    return sentences


def opens_quote(text: str, position: int) -> bool:
    """Whether a straight quote that touches both sentences belongs to the second."""
    return text[position] == '"' and text.count('"', 0, position) % 2 == 0


def ends_sentence(text: str, start: int, stop: int, end: int) -> bool:
    """Whether the sentence that begins at `start` ends with the stops at `stop`, before what follows at `end`."""
    if text[stop] in WIDE_STOPS:
        if end == stop + 1:  # nearly always
            return text[end] not in CONTINUATIONS
        return ends_at_wide(text[stop:end].rstrip(), text[end])
    if text[end - 1].isspace():
        return can_begin(text, end) and ends_at_narrow(text, start, stop, end)
    return ends_between_wide(text, stop, end)


def ends_at_wide(stops: str, following: str) -> bool:
    last = stops[-1]
    if last in "》〉":  # a title: 《誰是被害者？》
        return False
    if last == "）":  # a remark in the sentence, or a year that nobody knows, unless it is a whole sentence
        return stops[0] == "。"
    return following not in (CONTINUATIONS_OF_QUOTES if last in CLOSERS else CONTINUATIONS)


def ends_between_wide(text: str, stop: int, end: int) -> bool:
    """Whether narrow stops without space after them end a sentence, as they do only in Chinese and Japanese."""
    before, stops, following = text[max(stop - 3, 0) : stop], text[stop:end], text[end]
    if not WIDE_STOPS.isdisjoint(stops):
        return ends_at_wide(stops, following)
    if stops == "." or not is_wide(following):
        return False
    if stops[-1] in CLOSERS:
        return following not in CONTINUATIONS_OF_QUOTES
    if stops.startswith(ELLIPSES):  # after a character or two it is only a pause: 我……我不知道
        return len(before) == 3 and all(map(is_wide_letter, before)) and following not in CONTINUATIONS_OF_QUOTES
    return is_wide(before[-1:]) and following not in CONTINUATIONS


def is_wide(character: str) -> bool:
    return WIDE[0] <= character <= WIDE[1]


def is_wide_letter(character: str) -> bool:
    return is_wide(character) and character.isalpha()


def can_begin(text: str, end: int) -> bool:
    """Whether what follows can be the beginning of a sentence, also behind a dash or an opening quote."""
    following = text[end]
    if following.isupper():
        return True
    return following not in CONTINUATIONS and not next_word(text, end)[:1].islower()


def next_word(text: str, end: int) -> str:
    return NEXT_WORD.match(text, end)[1]  # type: ignore[index]  # it matches anything


def last_word(text: str, start: int, stop: int) -> str:
    """The word before a stop, without what opens quotes and brackets before it; in Chinese no space need be there."""
    before = text.rfind(" ", start, stop)
    word = text[(start if before < 0 else before + 1) : stop].lstrip("([{\"'“‘„«»—–")
    return word if word.isascii() else UP_TO_WIDE.sub("", word)


def ends_at_narrow(text: str, start: int, stop: int, end: int) -> bool:
    """Whether narrow stops end a sentence, if what follows can begin one."""
    stops = text[stop:end].rstrip()
    if stops == ".":
        return ends_at_full_stop(text, start, stop, end)
    if stops.startswith(ELLIPSES):
        return next_word(text, end) != "I"
    return stops != "!" or last_word(text, start, stop) not in EXCLAIMED_NAMES


def ends_at_full_stop(text: str, start: int, stop: int, end: int) -> bool:
    """Whether a single full stop ends a sentence, and not an abbreviation, an ordinal or the number of a list."""
    word = last_word(text, start, stop)
    if start + len(word) == stop and LABEL.fullmatch(word):
        return False
    if len(word) > 1 and word not in SPECIAL and word.isalpha() and not word.endswith(STREET):  # nearly always
        return True
    if word.isdigit():
        is_ordinal = next_word(text, end).rstrip(".") in AFTER_ORDINALS
        return not is_ordinal and not (len(word) <= 2 and is_in_date(text, start, stop, end))
    if word in NUMBERED or word.endswith(STREET):
        return not NUMBER.match(text, end)
    if word in NEVER_LAST:
        return False
    return not is_abbreviation(word) or next_word(text, end) in STARTERS


def is_in_date(text: str, start: int, stop: int, end: int) -> bool:
    """Whether a number with a full stop is the day or the month of a date."""
    if not text[end].isdigit():
        return False
    return bool(DATE.match(text, end) or DATE_BEFORE.search(text[max(start, stop - 8) : stop]))


def is_abbreviation(word: str) -> bool:
    return word in RARELY_LAST or INITIALS.fullmatch(word) is not None
