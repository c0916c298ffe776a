"""What holds for every task on a GPU: it is drawn, answered and scored there."""

import pytest
import torch
from gpu import needs_gpu

from twomem import tasks

pytestmark = needs_gpu
every = pytest.mark.parametrize("name", tasks.names())


@every
def test_the_oracle_is_perfect(name):
    task = tasks.load(name)
    batch = task.draw(50, task.generator(3, "cuda"))
    assert all(part.is_cuda for part in batch)
    answers = task.oracle(batch.inputs)
    assert answers.is_cuda
    assert task.score(answers, batch) == task.perfect
    assert task.loss(answers, batch).is_cuda


@every
def test_a_seed_means_a_batch_and_held_out_ones_are_others(name):
    task = tasks.load(name)
    one, same = (task.draw(20, task.generator(5, "cuda")) for _ in range(2))
    assert all(map(torch.equal, one, same))
    apart = task.draw(20, task.generator(5, "cuda", held_out=True))
    assert one.inputs.shape != apart.inputs.shape or not torch.equal(one.inputs, apart.inputs)
