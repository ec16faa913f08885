"""Where to write the names of points so that they can be read: a small search without chance.

Every name tries places around its point, near ones first, and takes the one that costs least: other names, points,
lines and the border are in the way, and far is worse than near. After a first round everybody moves again with all
others in place, a few times. All lengths are in points of print, 1/72 inch.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

DISTANCES = (4.5, 9.0, 15.0, 22.0, 30.0, 40.0, 52.0, 66.0)
DIRECTIONS = 16
LEADER_FROM = 9.0
"""Names further away than that have a thin line to their point."""
LEADER_PLACES = 8
ROUNDS = 6
GAP = 1.0
"""Kept free around a name; it belongs to its box."""
CROWD = 40.0
"""Points nearer than that are neighbours."""


# Names on a level with their points come first, right ones before left ones; the rest follow in order of their tilt.
_ANGLES = sorted(
    (2 * math.pi * turn / DIRECTIONS for turn in range(DIRECTIONS)), key=lambda angle: round(abs(math.sin(angle)), 9)
)


@dataclass(frozen=True, slots=True)
class Box:
    """An upright rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    @classmethod
    def around(cls, x: float, y: float, radius: float) -> Self:
        """Return the square that a marker takes."""
        return cls(x - radius, y - radius, x + radius, y + radius)

    def overlap(self, other: "Box") -> float:
        """Return the area that both take."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return width * height if width > 0 and height > 0 else 0.0

    def holds(self, x: float, y: float) -> bool:
        """Whether a place lies inside."""
        return self.left <= x <= self.right and self.bottom <= y <= self.top

    @property
    def area(self) -> float:
        """Width times height."""
        return (self.right - self.left) * (self.top - self.bottom)


@dataclass(frozen=True, slots=True)
class Name:
    """What is to be placed: its point, and the size of its letters."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a name is written and how far from its point; `leader` has places along the line to it, if it has one."""

    box: Box
    distance: float
    leader: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A place for a name, and what it costs whatever other names do."""

    cost: float
    place: Placed


def place_names(
    names: Sequence[Name], *, obstacles: Sequence[Box], lines: Sequence[tuple[float, float]], inside: Box
) -> list[Placed]:
    """Return a place for every name; `lines` are points along whatever curves should not be written upon.

    Who chooses first has most to choose from, so several orders are tried and the best of their outcomes is taken.
    """
    ground = _Ground(obstacles, lines, points=[(one.x, one.y) for one in names], inside=inside)
    choices = [ground.choices(name) for name in names]
    outcomes = [_settled(choices, order) for order in _orders(names)]
    return [choice.place for choice in min(outcomes, key=_total_cost)]


def _orders(names: Sequence[Name]) -> Iterator[list[int]]:
    """Yield orders in which names may choose: the most crowded first, from above, from below, from either side."""
    crowding = [sum(math.dist((one.x, one.y), (other.x, other.y)) < CROWD for other in names) for one in names]
    places = range(len(names))
    yield sorted(places, key=lambda place: (-crowding[place], place))
    yield sorted(places, key=lambda place: (crowding[place], place))
    for sign in (1, -1):
        yield sorted(places, key=lambda place: (sign * names[place].y, place))
        yield sorted(places, key=lambda place: (sign * names[place].x, -names[place].y, place))


def _settled(choices: Sequence[Sequence[_Choice]], order: Sequence[int]) -> list[_Choice]:
    """Return the places that names come to when they choose in this order, and then move until nobody wants to."""
    taken: dict[int, _Choice] = {}
    for _ in range(ROUNDS):
        before = dict(taken)
        for place in order:
            taken[place] = _cheapest(choices[place], [one.place for other, one in taken.items() if other != place])
        if taken == before:
            break
    return [taken[place] for place in range(len(choices))]


def _total_cost(taken: Sequence[_Choice]) -> float:
    return sum(one.cost for one in taken) + sum(_conflict(one.place, two.place) for one, two in combinations(taken, 2))


@dataclass(frozen=True, slots=True)
class _Ground:
    """Everything that stays where it is, whatever names do; the weights say what is worse than what."""

    obstacles: Sequence[Box]
    lines: Sequence[tuple[float, float]]
    points: Sequence[tuple[float, float]]
    inside: Box

    def choices(self, name: Name) -> list[_Choice]:
        """Return all places that a name may take, cheap ones first."""
        choices = [_Choice(self._cost(place, name), place) for place in _candidates(name)]
        return sorted(choices, key=lambda choice: choice.cost)

    def _cost(self, place: Placed, name: Name) -> float:
        box = place.box
        cost = 0.4 * place.distance + (6.0 if place.leader else 0.0)
        cost += 20.0 * (box.area - box.overlap(self.inside))
        cost += sum(6.0 * box.overlap(obstacle) for obstacle in self.obstacles)
        cost += sum(8.0 for x, y in self.lines if box.holds(x, y))
        own = (name.x, name.y)
        cost += sum(12.0 for at in place.leader for point in self.points if point != own and math.dist(at, point) < 5)
        return cost


def _cheapest(choices: Sequence[_Choice], others: Sequence[Placed]) -> _Choice:
    """Return the best place beside the other names where they are now."""
    best, least = choices[0], math.inf
    for choice in choices:
        cost = choice.cost
        if cost >= least:
            break
        for other in others:
            cost += _conflict(choice.place, other)
            if cost >= least:
                break
        else:
            best, least = choice, cost
    return best


def _conflict(one: Placed, other: Placed) -> float:
    """Return what two names cost each other: letters upon letters, leaders through letters, leaders across leaders."""
    cost = 10.0 * one.box.overlap(other.box)
    cost += sum(15.0 for x, y in other.leader if one.box.holds(x, y))
    cost += sum(15.0 for x, y in one.leader if other.box.holds(x, y))
    return cost + (15.0 if one.leader and other.leader and _cross(one, other) else 0.0)


def _cross(one: Placed, other: Placed) -> bool:
    """Whether two leaders cross: the ends of each lie on different sides of the other."""
    a, b, c, d = one.leader[0], one.leader[-1], other.leader[0], other.leader[-1]
    return _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0


def _side(start: tuple[float, float], end: tuple[float, float], point: tuple[float, float]) -> float:
    return (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])


def _candidates(name: Name) -> Iterator[Placed]:
    """Yield places around a point, near ones first: the letters begin where the direction leads."""
    width, height = name.width + 2 * GAP, name.height + 2 * GAP
    for distance in DISTANCES:
        for angle in _ANGLES:
            across, up = math.cos(angle), math.sin(angle)
            # Letters lie to the right of a place on the right, above one above, and in between in proportion.
            left = name.x + distance * across - width * (1 - across) / 2
            bottom = name.y + distance * up - height * (1 - up) / 2
            box = Box(left, bottom, left + width, bottom + height)
            yield Placed(box, distance, leader=tuple(_leader(name, box)) if distance >= LEADER_FROM else ())


def _leader(name: Name, box: Box) -> Iterator[tuple[float, float]]:
    """Yield places from a point to the nearest of its name's letters."""
    across = min(max(name.x, box.left), box.right) - name.x
    up = min(max(name.y, box.bottom), box.top) - name.y
    for step in range(LEADER_PLACES + 1):
        yield name.x + across * step / LEADER_PLACES, name.y + up * step / LEADER_PLACES
