"""What a task sees of the objects that are written for threads."""

import asyncio
import functools
import inspect
import pickle
import threading

import pytest

import omnigraph
import omnigraph.aio
from omnigraph.aio import bridge
from omnigraph.errors import TransactionEndedError

SCHEMA = "node P { k: String @key }"
ADD = "query add($k: String) { insert P { k: $k } }"
COUNT = "query n() { match { $p: P } return { count($p) as n } }"


async def count(state):
    (row,) = await state.query(COUNT)
    return row["n"]


def test_a_task_that_waits_lets_others_run():
    async def main():
        let_go, began = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow():
            loop.call_soon_threadsafe(began.set)
            assert let_go.wait(60)
            return 7

        waiting = asyncio.create_task(bridge.run(lambda: bridge.MANNER.compute(slow)))
        await began.wait()
        let_go.set()
        return await waiting

    assert asyncio.run(main()) == 7


def test_error_and_cancellation_reach_the_code_that_waits():
    ended = []

    def function(awaitable):
        try:
            return bridge.wait(awaitable)
        except BaseException as error:
            ended.append(type(error))
            raise

    async def fail():
        raise ValueError

    async def main():
        with pytest.raises(ValueError):
            await bridge.run(function, fail())
        task = asyncio.create_task(bridge.run(function, asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == [ValueError, asyncio.CancelledError]


def test_nothing_is_awaited_outside_of_a_call():
    with pytest.raises(RuntimeError):
        bridge.wait(None)


def test_tasks_share_a_transaction(tmp_path):
    async def main():
        async with await omnigraph.aio.init(tmp_path / "g.omni", SCHEMA) as graph:
            async with await graph.transaction() as transaction:
                await asyncio.gather(*(transaction.mutate(ADD, {"k": f"p{number}"}) for number in range(8)))
            with pytest.raises(TransactionEndedError):
                await transaction.mutate(ADD, {"k": "late"})
            return await count(graph), len(await graph.log())

    assert asyncio.run(main()) == (8, 2)


@pytest.mark.parametrize("is_async", [True, False])
def test_function_of_a_transaction_gets_the_object_for_tasks(tmp_path, is_async):
    async def add(transaction):
        assert isinstance(transaction, omnigraph.aio.Transaction)
        await transaction.mutate(ADD, {"k": "a"})
        return transaction.branch

    async def main():
        async with await omnigraph.aio.init(tmp_path / "g.omni", SCHEMA) as graph:
            run = add if is_async else functools.partial(add)
            return await graph.run_transaction(run), await count(graph)

    assert asyncio.run(main()) == ("main", 1)


def test_feed_that_waits_is_stopped_from_another_thread(tmp_path):
    async def main():
        async with await omnigraph.aio.init(tmp_path / "g.omni", SCHEMA) as graph:
            feed = await graph.feed("now", follow=True, interval_s=3600)
            reading = asyncio.create_task(anext(aiter(feed), None))
            await asyncio.sleep(0)
            await asyncio.to_thread(feed.stop)
            return await asyncio.wait_for(reading, 60)

    assert asyncio.run(main()) is None


def test_iteration_that_is_left_early_closes_what_it_reads(tmp_path):
    async def main():
        async with await omnigraph.aio.init(tmp_path / "g.omni", SCHEMA) as graph:
            start = (await graph.log())[0]
            for number in range(3):
                await graph.mutate(ADD, {"k": f"p{number}"})
            changes = aiter(await graph.diff(start))
            first = await anext(changes)
            await changes.aclose()
            return first.op

    assert asyncio.run(main()) == "insert"


def test_log_goes_to_another_process_and_knows_no_graph(tmp_path):
    async def main():
        async with await omnigraph.aio.init(tmp_path / "g.omni", SCHEMA) as graph:
            return await graph.log()

    log = asyncio.run(main())
    sent = pickle.loads(pickle.dumps(log))  # noqa: S301 - our own
    assert isinstance(sent, omnigraph.aio.Log)
    assert list(sent) == list(log)


def test_classes_have_the_signatures_and_the_help_of_those_for_threads():
    for name in ("Branch", "Diff", "Feed", "Graph", "Log", "Proposal", "Snapshot", "Transaction"):
        plain, twin = getattr(omnigraph, name), getattr(omnigraph.aio, name)
        for member in (one for one in vars(plain) if not one.startswith("_")):
            found = getattr(twin, member)
            assert inspect.getdoc(found) == inspect.getdoc(getattr(plain, member)), (name, member)
            if inspect.isfunction(getattr(plain, member)):
                assert inspect.signature(found) == inspect.signature(getattr(plain, member)), (name, member)
