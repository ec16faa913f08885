"""`datasets` against a folder on disk: no test here may reach the network."""

import json
from pathlib import Path

import pytest

from mada.errors import DataError
from mada.problems import load_problems
from mada.problems.hub import HubName, read_hub_rows


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets.config
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set in the GSM8K layout, with two splits."""
    made = tmp_path / "tiny"
    made.mkdir()
    for split, count in (("train", 3), ("test", 1)):
        rows = [{"question": f"{split} {n}?", "answer": f"so {n}\n#### {n},000"} for n in range(count)]
        (made / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def test_rows_of_a_split_with_their_places(folder: Path) -> None:
    hub = HubName(str(folder), split="train")

    rows = list(read_hub_rows(hub))

    assert [row.values["question"] for row in rows] == ["train 0?", "train 1?", "train 2?"]
    assert rows[2].location == f"{folder} (train): row 3"


def test_reading_draws_no_bar_and_leaves_others_theirs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import datasets.config

    list(read_hub_rows(HubName(str(folder), split="train")))
    assert capfd.readouterr() == ("", "")
    assert not datasets.are_progress_bars_disabled()


def test_problems_of_a_hub_data_set(folder: Path) -> None:
    problems = load_problems(f"hub:{folder}", split="train", answer_form="after-hashes", limit=2)

    assert [(problem.question, problem.answer) for problem in problems] == [
        ("train 0?", "0000"),
        ("train 1?", "1000"),
    ]
    assert {problem.source for problem in problems} == {str(folder)}


def test_a_single_split_need_not_be_named_but_one_of_several_must(folder: Path) -> None:
    with pytest.raises(DataError, match=r"has several splits \('train', 'test'\); choose one, .*split = "):
        list(read_hub_rows(HubName(str(folder))))
    (folder / "test.jsonl").unlink()
    assert len(list(read_hub_rows(HubName(str(folder))))) == 3


def test_an_unknown_split_or_column_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match=r'cannot be loaded \(ValueError: Unknown split "dev"'):
        load_problems(f"hub:{folder}", split="dev")
    with pytest.raises(DataError, match=r"\(test\): row 1: no column for the answer \(looked for 'key'\)"):
        load_problems(f"hub:{folder}", split="test", columns={"answer": "key"})


def test_a_known_set_without_a_folder_is_read_from_the_hub_and_offline_says_what_to_do() -> None:
    with pytest.raises(DataError) as raised:
        load_problems("math-500", revision="abc")
    message = str(raised.value)
    assert message.startswith("hub:HuggingFaceH4/MATH-500 (test, abc): cannot be loaded (ConnectionError: ")
    assert message.endswith("set MADA_DATA to a folder with the known files, or pass a file")


def test_a_failure_without_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("datasets.load_dataset", fail)
    with pytest.raises(DataError, match=r"cannot be loaded \(RuntimeError: no reason given\)"):
        load_problems("hub:someone/something")


def test_the_hubs_layout_of_known_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "openai/gsm8k": {"question": "q", "answer": "6 * 12 #### 72"},
        "knoveleng/Minerva-Math": {"problem": "q", "solution": r"so $\boxed{72}$"},
        "knoveleng/AMC-23": {"problem": "q", "answer": 72.0, "id": 0},
        "RUC-AIBOX/STILL-3-Preview-RL-Data": {"question": "q", "answer": "72"},
        "ChilleD/MultiArith": {"question": "q", "final_ans": "72"},
    }
    asked: list[tuple[object, ...]] = []

    def load(name: str, config: str | None, *, split: str, revision: str | None) -> list[dict[str, object]]:
        asked.append((name, config, split, revision))
        return [answers[name]]

    monkeypatch.setattr("datasets.load_dataset", load)

    for name in ("gsm8k", "minerva-math", "amc-23", "still-3", "multiarith"):
        assert load_problems(name)[0].answer == "72"
    assert asked[0] == ("openai/gsm8k", "main", "test", None)
    assert asked[3] == ("RUC-AIBOX/STILL-3-Preview-RL-Data", None, "train", None)
