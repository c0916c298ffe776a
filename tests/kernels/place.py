"""Where kernels are tested: on a GPU if there is one, and else in the emulator."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
