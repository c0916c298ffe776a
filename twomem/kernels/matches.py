"""What the sources of the kernels call operands of each dtype."""

import torch

from twomem.kernels.stm_shared import PRECISIONS

NUMBERS = {
    torch.float16: PRECISIONS["half"],
    torch.bfloat16: PRECISIONS["bf16"],
    torch.float32: PRECISIONS["fp32"],
}
