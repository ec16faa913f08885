"""Several at a time, in order, and no further than the first failure."""

import asyncio

import pytest

from mada.concurrency import each


def test_work_is_done_so_many_at_a_time_and_the_first_failure_ends_it():
    async def scenario(fail_at=None):
        at_work, most, done = 0, 0, []

        async def work(item):
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            if item == fail_at:
                raise ValueError(item)
            await asyncio.sleep(0)
            at_work -= 1
            done.append(item)

        try:
            await each(range(20), work, at_once=3)
        except ValueError:
            return most, done
        return most, sorted(done)

    assert asyncio.run(scenario()) == (3, list(range(20)))
    most, done = asyncio.run(scenario(fail_at=7))
    assert most == 3
    assert len(done) < 12
    assert 7 not in done


def test_items_are_begun_in_their_order_and_taken_only_when_somebody_is_free():
    taken, begun = [], []

    def items():
        for item in range(6):
            taken.append(item)
            yield item

    async def work(item):
        begun.append(item)
        assert len(taken) <= len(begun)
        await asyncio.sleep(0)

    asyncio.run(each(items(), work, at_once=2))
    assert begun == list(range(6))


def test_the_failure_itself_is_raised_when_the_others_have_ended():
    ended = []

    async def work(item):
        if item == 1:
            raise ValueError("the second")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(item)

    with pytest.raises(ValueError, match=r"^the second$"):
        asyncio.run(each(range(5), work, at_once=3))
    assert ended == [0, 2]


def test_without_items_nobody_works():
    async def work(item):
        raise AssertionError(item)

    asyncio.run(each([], work, at_once=3))
