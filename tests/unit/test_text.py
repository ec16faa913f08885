import pytest

from mada.text import counted, duration, in_bytes, in_millions, printable, sanitize


def test_a_count_has_its_noun():
    assert [counted(1, "seed"), counted(1000, "seed"), counted(2, "try", "tries")] == [
        "1 seed",
        "1,000 seeds",
        "2 tries",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.04, "0.04 s"),
        (8.44, "8.4 s"),
        (9.97, "10 s"),
        (42.4, "42 s"),
        (59.6, "1 min 0 s"),
        (185, "3 min 5 s"),
        (599.6, "10 min"),
        (719, "12 min"),
        (3599, "1 h 0 min"),
        (14_700, "4 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_sizes_have_the_digits_that_count():
    assert [in_bytes(count) for count in (999, 3_554_176_000, 5e15)] == ["999 bytes", "3.55 GB", "5e+03 TB"]
    assert [in_millions(count) for count in (999_999, 1_600_000, 903_168_000)] == [
        "999,999",
        "1.6 million",
        "900 million",
    ]


def test_untrusted_text_steers_nothing():
    assert sanitize("a\r\nb\u2028c\x1b[2J\u202e\ud800\t") == "a\nb\nc�[2J��\t"
    assert printable(" a\n b\x00 ") == "a b�"
