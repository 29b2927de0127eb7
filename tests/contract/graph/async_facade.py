"""The async twin as tests for threads see it: every coroutine runs on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading

import omnigraph.aio

# Properties that have to be waited for are methods of the twin.
METHODS = {"schema", "source", "queries"}
TWINS = ("omnigraph.aio", "omnigraph.client._async")


class Loop:
    """An event loop in a thread."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Facade:
    """An object of the twin, called as one of ``omnigraph`` is."""

    def __init__(self, loop, inner):
        self._loop = loop
        self._inner = inner

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name in METHODS and inspect.iscoroutinefunction(found):
            return self._settled(found())
        if name == "run_transaction":
            return lambda run, **more: self._loop.run(found(self._as_coroutine(run), **more))
        if not callable(found) or isinstance(found, type) or type(found).__module__.startswith(TWINS):
            return self._shown(found)
        return lambda *args, **more: self._settled(found(*map(bare, args), **{k: bare(v) for k, v in more.items()}))

    def _as_coroutine(self, run):
        if not callable(run):
            return run

        async def call(transaction):
            return await asyncio.to_thread(run, Facade(self._loop, transaction))

        return call

    def _settled(self, value):
        if inspect.isasyncgen(value):
            return self._drawn(value)
        return self._shown(self._loop.run(value) if inspect.iscoroutine(value) else value)

    def _shown(self, value):
        return Facade(self._loop, value) if type(value).__module__.startswith(TWINS) else value

    def __enter__(self):
        if hasattr(self._inner, "__aenter__"):
            self._loop.run(self._inner.__aenter__())
        else:
            self._inner.__enter__()
        return self

    def __exit__(self, *problem):
        if hasattr(self._inner, "__aexit__"):
            return self._loop.run(self._inner.__aexit__(*problem))
        return self._inner.__exit__(*problem)

    def __iter__(self):
        if not hasattr(self._inner, "__aiter__"):
            yield from self._inner
            return
        yield from self._drawn(self._inner.__aiter__())

    def _drawn(self, items):
        while True:
            try:
                yield self._shown(self._loop.run(items.__anext__()))
            except StopAsyncIteration:
                return

    def __len__(self):
        return len(self._inner)

    def __getitem__(self, index):
        return self._shown(self._inner[index])

    def __call__(self, *args, **more):
        return self._settled(self._inner(*args, **more))

    def __contains__(self, item):
        return item in self._inner

    def __str__(self):
        return str(self._inner)

    def __repr__(self):
        return repr(self._inner)

    def __reduce__(self):
        return bare, (self._inner,)


def bare(value):
    """Return the object of the twin that stands behind a value."""
    if isinstance(value, Facade):
        return value._inner
    return [bare(item) for item in value] if type(value) is list else value


def facade_of(loop, function):
    """Return ``init`` or ``open`` of the twin, to be called by tests."""
    return lambda *args, **more: Facade(loop, loop.run(function(*args, **more)))


def entrances(loop):
    """Return what replaces ``omnigraph.init`` and ``omnigraph.open``."""
    return {"init": facade_of(loop, omnigraph.aio.init), "open": facade_of(loop, omnigraph.aio.open)}
