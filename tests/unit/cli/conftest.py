"""Commands in this process: what they print when they work, and the one message a mistake ends in."""

import pytest

from mada.cli import main


@pytest.fixture(scope="module")
def in_this_process():
    """Let commands run where PyTorch is loaded already, and leave no trace here."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("run", "evaluate"):
            # It silences libraries for the rest of the process, which other tests may want to hear.
            patch.setattr(f"mada.cli.{module}.quieten", lambda: None)
        patch.setattr("torch.set_num_threads", lambda count: None)
        patch.setattr("torch.cuda.is_available", lambda: False)
        yield


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run a command that is a mistake, and return the one message it ends in."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["mada", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "Traceback" not in printed.err
        assert printed.err.startswith("mada: ")
        return printed.err

    return run
