import torch
from torch.backends import cuda

from mada.models.attention import lengths_vary


def test_cudnn_is_left_out_in_the_block_and_back_after_it():
    cuda.enable_cudnn_sdp(True)
    with lengths_vary(torch.device("cuda")):
        assert not cuda.cudnn_sdp_enabled()
        assert cuda.flash_sdp_enabled()
        assert cuda.mem_efficient_sdp_enabled()
    assert cuda.cudnn_sdp_enabled()


def test_a_cpu_is_left_as_it_is():
    cuda.enable_cudnn_sdp(True)
    with lengths_vary(torch.device("cpu")):
        assert cuda.cudnn_sdp_enabled()
