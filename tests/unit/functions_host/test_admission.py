from devstack.functions_host.admission import Admission


def test_without_a_death_everything_is_admitted() -> None:
    assert Admission().admit(48) == 48


def test_after_a_death_one_at_a_time_until_as_many_have_ended_as_were_in_flight() -> None:
    admission = Admission()
    admission.admit(3)
    admission.worker_died()
    assert admission.admit(5) == 0  # those three have not been given up yet
    for _ in range(3):
        admission.lost()
    for _ in range(3):
        assert admission.is_on_probation()
        assert admission.admit(5) == 1
        assert admission.admit(5) == 0
        admission.ended()
    assert not admission.is_on_probation()
    assert admission.admit(5) == 5


def test_a_second_death_owes_no_more_than_the_first() -> None:
    admission = Admission()
    admission.admit(2)
    admission.worker_died()
    admission.lost()
    admission.lost()
    admission.admit(1)
    admission.worker_died()
    admission.lost()
    for _ in range(2):
        admission.admit(1)
        admission.ended()
    assert not admission.is_on_probation()


def test_probation_ends_when_no_receiver_finds_anything() -> None:
    admission = Admission()
    admission.register("a")
    admission.register("b")
    admission.admit(2)
    admission.worker_died()
    admission.lost()
    admission.lost()
    admission.found_nothing("a")
    admission.found_some()
    admission.found_nothing("b")
    assert admission.is_on_probation()
    admission.found_nothing("a")
    assert not admission.is_on_probation()


def test_a_death_with_nothing_in_flight_changes_nothing() -> None:
    admission = Admission()
    admission.worker_died()
    assert admission.admit(4) == 4
