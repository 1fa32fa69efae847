"""What an error may tell."""

from __future__ import annotations

import pytest

from inferometer.errors import without

SECRETS = {"sk-secret": "[key]", "sk-secret-long": "[long]", "abc": "[short]"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nothing", "nothing"),
        ("a sk-secret b sk-secret.", "a [key] b [key]."),
        ("sk-secret-long", "[long]"),
        ("cut off: sk-secr", "cut off: [long]"),
        ("cut off: sk-secret-lo", "cut off: [long]"),
        ("too little: sk-", "too little: sk-"),
        ("abc is too short to be one", "abc is too short to be one"),
        ("", ""),
    ],
)
def test_secrets_are_left_out_whole_or_cut_off(text: str, shown: str) -> None:
    assert without(text, SECRETS) == shown
