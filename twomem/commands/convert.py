"""`twomem convert`: a checkpoint of the released code as safetensors and JSON."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from twomem.commands.output import document, say
from twomem.core.errors import BadFile, SettingsError

_ANCHOR = "item_memory_state_bias"


def convert_command(
    checkpoint: Path,
    folder: Path,
    /,
    *,
    gated: bool = True,
    alphas: tuple[str, str, str] = ("learned", "learned", "learned"),
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Turn a checkpoint of the released code into model.safetensors and config.json.

    The checkpoint is a pickle; it is read with torch's weights-only loading, which runs no code.

    Args:
        checkpoint: The file that the released code saved.
        folder: Where the two files are written; made if it is not there.
        gated: Whether that model had gates, which the file does not say.
        alphas: For each of the three blends `learned`, or the number that it was fixed to.
        json: Print one JSON document.
    """
    from twomem.models.stm_released import STMReleased
    from twomem.training.checkpoints import serialised
    from twomem.training.files import said_plainly, to_json, write_whole

    first, second, third = alphas
    blends = (_blend(first), _blend(second), _blend(third))
    tensors, left_out = _without_prefix(_load(checkpoint))
    model = STMReleased.from_released_checkpoint(tensors, gated=gated, alphas=blends)
    config = {
        "model": model.config.settings(),
        "input_size": model.input_size,
        "output_size": model.output_size,
    }
    with said_plainly(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "model.safetensors", serialised(model.state_dict()))
    write_whole(folder / "config.json", to_json(config))
    if left_out:
        say(f"left out, as they are not part of an STM: {', '.join(left_out)}")
    if json:
        document({"folder": str(folder), "left_out": left_out, **config})
    else:
        print(f"{folder}: a released STM with {model.parameter_count:,} parameters")


def _blend(word: str) -> float | None:
    if word == "learned":
        return None
    try:
        return float(word)
    except ValueError:
        raise SettingsError(f"a blend is 'learned' or a number, not {word!r}") from None


def _load(path: Path) -> dict[str, Any]:
    """Reads the pickle without running anything that is in it."""
    import warnings
    from pickle import UnpicklingError
    from zipfile import BadZipFile

    import torch

    if not path.is_file():
        raise BadFile(f"there is no file {path}")
    try:
        with warnings.catch_warnings():
            # what an old pickle makes torch remark is said below, in a sentence
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        raise BadFile(f"{path} is not a checkpoint of tensors alone, and is not opened") from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, BadZipFile):
        raise BadFile(f"{path} is cut, or is not a checkpoint of torch") from None
    for wrapper in ("state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise BadFile(f"{path} holds a {type(found).__name__}, where a table of tensors is needed")
    return found


def _without_prefix(found: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The STM's own tensors, whatever module it was a part of, and the names of the rest."""
    anchors = [name for name in found if name.endswith(_ANCHOR)]
    if len(anchors) != 1:
        raise BadFile(
            f"the checkpoint has {len(anchors)} tensors {_ANCHOR!r}, where one STM has one: "
            "it is not the checkpoint of a released STM"
        )
    prefix = anchors[0].removesuffix(_ANCHOR)
    own = {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}
    return own, sorted(name for name in found if not name.startswith(prefix))
