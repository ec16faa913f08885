"""Commands in this process: what they print when they work, and the one message a mistake ends in."""

import io

import pytest
from typer.testing import CliRunner

from mada.cli import app, main


@pytest.fixture(scope="module")
def in_this_process():
    """Let commands run where PyTorch is loaded already, and leave no trace here."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("run", "evaluate", "debate"):
            # It silences libraries for the rest of the process, which other tests may want to hear.
            patch.setattr(f"mada.cli.{module}.silence_libraries", lambda: None)
        patch.setattr("torch.set_num_threads", lambda count: None)
        patch.setattr("torch.cuda.is_available", lambda: False)
        yield


@pytest.fixture(scope="session")
def mada():
    """Run a command that works, and return what it printed."""

    def run(*words, given=""):
        runner = CliRunner(env={"COLUMNS": "220", "TERM": "dumb"})
        done = runner.invoke(app, [str(word) for word in words], input=given, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


@pytest.fixture
def refused(monkeypatch, capsys):
    """Run a command that is a mistake, and return the one message it ends in."""

    def run(*words, given=b"", prints_first=False):
        monkeypatch.setattr("sys.argv", ["mada", *map(str, words)])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        printed = capsys.readouterr()
        assert prints_first or printed.out == ""
        assert "Traceback" not in printed.err
        return printed.err[printed.err.index("mada: ") :]

    return run
