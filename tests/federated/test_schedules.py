import pytest

from fedactive.federated.schedules import fl_rate, local_only_rates, milestones


def test_paper_decays_at_one_half_and_three_quarters():
    rates = [fl_rate("paper", 0.01, t, 100) for t in range(100)]
    assert rates[49] == 0.01
    assert rates[50] == rates[74] == pytest.approx(0.001)
    assert rates[75] == pytest.approx(0.0001)


def test_reference_decays_once_from_round_76():
    rates = [fl_rate("reference", 0.01, t, 100) for t in range(100)]
    assert rates[75] == 0.01
    assert rates[76] == rates[99] == pytest.approx(0.001)


def test_local_only_training_decays_by_epoch_in_the_paper_and_by_batch_in_the_reference():
    paper = local_only_rates("paper", 0.01, 50, 4)
    assert len(paper) == 200
    assert (paper[99], paper[100], paper[147], paper[148]) == pytest.approx((0.01, 0.001, 0.001, 0.0001))
    reference = local_only_rates("reference", 0.01, 50, 4)
    assert (reference[36], reference[37], reference[199]) == pytest.approx((0.01, 0.001, 0.001))


@pytest.mark.parametrize("schedule", ["paper", "reference"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_however_short_it_begins_with_the_full_rate(schedule, length):
    assert fl_rate(schedule, 0.01, 0, length) == 0.01
    assert local_only_rates(schedule, 0.01, length, 1)[0] == 0.01


def test_milestones_are_whole_and_never_the_beginning():
    found = {length: milestones(length) for length in (1, 2, 3, 4, 5, 7, 100)}
    assert found == {1: (1, 1), 2: (1, 1), 3: (1, 2), 4: (2, 3), 5: (2, 3), 7: (3, 5), 100: (50, 75)}
