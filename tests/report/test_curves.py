"""Learning curves of made-up runs, with the numbers worked out by hand."""

from twomem.report import curves

SLOW = [{"step": 10, "accuracy": 20.0}, {"step": 20, "accuracy": 40.0}]
QUICK = [{"step": 10, "accuracy": 60.0}]


def test_the_band_reaches_from_the_lowest_to_the_highest_around_the_mean():
    assert curves.band([SLOW, QUICK], "accuracy") == {
        10: (20.0, 40.0, 60.0),
        # the quick run was done, and keeps its score
        20: (40.0, 50.0, 60.0),
    }


def test_a_score_that_nobody_measured_has_no_band():
    assert curves.band([SLOW], "bit_errors") == {}


def test_curves_are_drawn_with_a_name_for_each_group(tmp_path):
    path = tmp_path / "curves.svg"
    curves.draw({"quick": [QUICK], "slow": [SLOW, SLOW]}, "accuracy", path, "made up", chance=10)
    assert path.stat().st_size > 1000
    assert [each.name for each in tmp_path.iterdir()] == ["curves.svg"]
