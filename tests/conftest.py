"""Fixtures shared by all tests."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine makes no property false.
settings.register_profile("mada", deadline=None)
settings.load_profile("mada")

# Shells and nohup make background processes ignore these signals; processes that a test stops with them would, too.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module", autouse=True)
def frozen_imports() -> None:
    """Leave imported modules out of garbage collections: stages collect all garbage, which took most of their tests."""
    gc.freeze()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real benchmarks: MADA_DATA, or shared/data beside the checkout."""
    folder = Path(os.environ.get("MADA_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("the real data sets are not here: set MADA_DATA to the folder that holds them")
    return folder
