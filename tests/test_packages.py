"""Who installs the models alone gets them with five packages, and waits for none that is not used."""

import subprocess
import sys

import pytest

_EXTRA = ("cyclopts", "matplotlib", "tensorboard", "rich", "beartype")


def python(code: str) -> None:
    """Runs code in a process of its own; it must end well."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_models_operators_and_training_need_no_extra_package():
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in _EXTRA)
    python(
        f"import sys\n{blocked}"
        "import torch, twomem\n"
        "for name in twomem.models.names():\n"
        "    twomem.models.load(name).build(3, 2)(torch.zeros(2, 1, 3))\n"
        "import twomem.training.runs\n"
    )


def test_importing_the_package_does_not_import_torch():
    python("import sys, twomem; assert 'torch' not in sys.modules; assert twomem.__version__")


@pytest.mark.parametrize("name", ["STM", "STMReleased", "LSTM", "Memory", "restart", "detach"])
def test_public_names_are_there(name):
    import twomem

    assert name in dir(twomem)
    assert getattr(twomem, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    import twomem

    with pytest.raises(AttributeError, match="no attribute 'STN'"):
        _ = twomem.STN
