"""What tests of reads share."""

import pytest


@pytest.fixture
def count(monkeypatch):
    """Return what counts the calls of a function from then on."""

    def watch(owner, name):
        calls, real = [], getattr(owner, name)

        def counted(*arguments, **named):
            calls.append(arguments)
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, counted)
        return calls

    return watch
