"""The peak of memory is that of what was done since it was counted anew."""

import sys

import numpy as np
import pytest

from dpstudy.lab import memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts it")
def test_what_was_held_and_given_back_before_does_not_count():
    memory.count_anew()
    before = memory.peak_megabytes()
    np.ones(40_000_000).sum()
    with_array = memory.peak_megabytes()
    memory.count_anew()
    assert 250 < with_array - before < 400
    assert with_array - memory.peak_megabytes() > 250


def test_elsewhere_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_PROCESS", tmp_path)
    assert memory.peak_megabytes() is None
