from fedactive.data.report import counting


def test_images_are_counted_from_none_to_all():
    told = []
    count = counting(7, lambda *numbers: told.append(numbers))
    for more in (2, 0, 5):
        count(more)
    assert told == [(2, 7), (2, 7), (7, 7)]
