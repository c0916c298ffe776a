"""How a model is trained: settings without torch, so that the command line can show them at once."""

from typing import Annotated, Literal

from pydantic import Field

from twomem.core.config import Config, Size

Positive = Annotated[float, Field(gt=0)]


class Train(Config):
    """How a model is trained; the defaults are those of the paper's synthetic tasks."""

    steps: Size = 50_000
    """Updates of the parameters."""
    batch: Size = 128
    """Sequences in an update."""
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """The rule of an update."""
    learning_rate: Positive = 1e-4
    """Its step size."""
    decay: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """How slowly the mean of squared gradients moves, in RMSprop."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Momentum, in RMSprop."""
    clip_value: Positive | None = 10.0
    """Largest gradient of one number; none does not clip."""
    clip_norm: Positive | None = None
    """Largest Euclidean norm of all gradients together; none does not clip."""
    report_every: Size = 200
    """Updates between two measurements."""
    save_every: Size = 1000
    """Updates between two checkpoints."""
    test_batches: Size = 10
    """Held-out batches in the scores of a measurement."""
    stop_at: dict[str, float] = Field(default_factory=dict)
    """Stops early once every held-out score named here is reached, `--how.stop-at.accuracy 99`."""
