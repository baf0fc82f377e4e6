"""How text is cleaned before SentencePiece sees it."""

import unicodedata


def normalize_albert(text: str, *, lower_case: bool = True) -> str:
    """Google's preparation for ALBERT: single spaces, compatibility forms, no accents, lower case."""
    text = unicodedata.normalize("NFKD", " ".join(text.split()))
    text = "".join(character for character in text if not unicodedata.combining(character))
    return text.lower() if lower_case else text
