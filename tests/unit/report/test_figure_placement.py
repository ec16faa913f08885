"""Names beside points: no two upon each other, none outside, near ones preferred, and no chance in it."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from mada.report.figures.placement import GAP, Box, Name, place_names

PAGE = Box(0, 0, 400, 300)


def placed(*names, obstacles=(), lines=()):
    return place_names(names, obstacles=obstacles, lines=lines, inside=PAGE)


def overlapping(places):
    return [pair for pair in combinations([one.box for one in places], 2) if pair[0].overlap(pair[1]) > 0]


def test_overlap_is_the_area_of_both():
    assert Box(0, 0, 4, 4).overlap(Box(3, 2, 9, 9)) == 2
    assert Box(0, 0, 4, 4).overlap(Box(4, 0, 5, 5)) == 0


def test_a_name_alone_is_written_right_beside_its_point():
    (place,) = placed(Name(200, 150, 40, 8))
    assert place.leader == ()
    assert (place.box.left, place.box.bottom) == (204.5, 150 - 4 - GAP)


def test_at_the_right_border_names_are_written_to_the_left():
    (place,) = placed(Name(395, 150, 40, 8))
    assert place.box.right == 395 - 4.5


def test_a_name_keeps_off_lines_and_obstacles():
    line = [(200.0 + step, 150.0) for step in range(0, 100, 3)]
    (place,) = placed(Name(200, 150, 40, 8), lines=line, obstacles=[Box(150, 100, 200, 200)])
    assert not any(place.box.holds(x, y) for x, y in line)
    assert place.box.overlap(Box(150, 100, 200, 200)) == 0


def test_points_in_one_place_have_names_in_different_ones():
    places = placed(*[Name(200, 150, 60, 14)] * 6)
    assert overlapping(places) == []
    far = [one for one in places if one.distance > 10]
    # A leader goes from the point to the letters.
    assert all(one.leader[0] == (200, 150) and one.box.holds(*one.leader[-1]) for one in far)


def test_a_column_of_points_close_to_each_other():
    names = [Name(390, 40 + 6 * place, 70, 8) for place in range(15)]
    places = placed(*names)
    assert overlapping(places) == []
    assert all(one.box.overlap(PAGE) == one.box.area for one in places)


def test_no_points_have_no_names():
    assert placed() == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=6))
def test_few_names_always_find_room_and_the_same_one(points):
    names = [Name(10.0 * x, 10.0 * y, 50, 8) for x, y in points]
    places = placed(*names)
    assert overlapping(places) == []
    assert places == placed(*names)
