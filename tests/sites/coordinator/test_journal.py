"""What a run remembers and shows, over its restarts."""

from __future__ import annotations

from fedactive.sites.coordinator.journal import Journal
from fedactive.sites.coordinator.status import STARTING, Phase, read_status


def test_a_run_that_goes_on_shows_what_was_known_of_its_sites(tmp_path):
    assert read_status(tmp_path).phase == STARTING
    before = Journal(tmp_path, ["north", "south"])
    before.update_site(0, labelled_in_all=7)
    before.set_online({0})
    before.add_dropped("south sent nonsense")
    before.enter(Phase("training", 1, 2, 4))
    after = Journal(tmp_path, ["north", "south"])
    assert after.run == before.run
    after.enter(Phase("training", 1, 3, 4))
    status = read_status(tmp_path)
    assert str(status.phase) == "AL round 1: FL round 3 of 4"
    assert status.sites["north"] == {"labelled_in_all": 7, "online": False}
    assert [item["what"] for item in status.dropped] == ["south sent nonsense"]


def test_a_deadline_counts_from_the_rounds_beginning_by_the_plan_of_now(tmp_path):
    first = Journal(tmp_path, ["north"]).deadline(1, 3600)
    later = Journal(tmp_path, ["north"])
    assert later.deadline(1, 3600) == first
    assert later.deadline(1, 60) == first - 3540
    assert later.deadline(2, 60) > first - 3540
    assert later.deadline(1, 0) is None


def test_the_status_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / "status.json").write_text(
        '{"phase": "AL round 1: choosing", "sites": {"north": {}}, "dropped": []}'
    )
    status = read_status(tmp_path)
    assert status.phase == STARTING
    assert status.sites == {"north": {}}
