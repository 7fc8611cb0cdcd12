"""VQA's own accuracy and normalisation of answers.

As the VQA challenge defines them (Antol et al. 2015, arXiv 1505.00468; visualqa.org/evaluation.html).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_AGREEING = 3
_ARTICLES = frozenset(("a", "an", "the"))
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {"none": "0"} | {word: str(number) for number, word in enumerate(_DIGITS)}
# All punctuation but the apostrophe (possessives) and the colon (times).
_PUNCTUATION = re.compile(r"""[;/\[\]"{}()=+\\_\-><@`,?!]""")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d)")
_PERIOD = re.compile(r"\.(?!\d)")
_SHORTENED = {
    "n't": "ai are ca could did does do had has have is might must need ought sha should was were wo would",
    "'ve": "could might must should they we what where who would you",
    "'re": "there they what who why you",
    "'ll": "how it somebody someone something they what who why you",
    "'s": "he how somebody someone that there what where who why",
    "'d": "he how it somebody someone something there they where who you",
    "'clock": "o",
    "'am": "ma",
}
_CONTRACTIONS = {
    stem + ending.replace("'", ""): stem + ending
    for ending, stems in _SHORTENED.items()
    for stem in stems.split()
}


def normalise(answer: str) -> str:
    """The form in which answers are compared; doing it again changes nothing.

    Lower case; no thousands separators, articles or periods but decimal points; number words up to ten as
    digits; contractions with their apostrophe; other punctuation as a blank.
    """
    text = _PUNCTUATION.sub(" ", _THOUSANDS.sub("", answer.lower()))
    words = [_NUMBERS.get(word, word) for word in _PERIOD.sub("", text).split()]
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)


def accuracy(answer: str, references: Sequence[str]) -> float:
    """How right `answer` is, 0..1, against the answers of one or several people.

    Of one person: 1 where both are equal, else 0. Of several: min(n / 3, 1), where n others gave that answer,
    averaged over leaving out each person in turn, as the challenge's program does. Ten people of whom three
    agree with the answer make 0.9. Both sides are normalised.

    Raises:
        ValueError: there is no reference.
    """
    if not references:
        raise ValueError("an answer cannot be held against no answers")
    given = normalise(answer)
    agrees = [normalise(reference) == given for reference in references]
    if len(agrees) == 1:
        return float(agrees[0])
    total = sum(agrees)
    return sum(min((total - one) / _AGREEING, 1.0) for one in agrees) / len(agrees)
