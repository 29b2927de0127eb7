"""Graphs that several tests price; each is built once, at zero latency."""

import os
from functools import cache

import pytest

from tests.cost.driver import Driver

DEPTHS = (1, 10, 100, 1000) if os.environ.get("OMNIGRAPH_COST") == "deep" else (1, 100)
WIDTHS = (4, 100)


@pytest.fixture(scope="session")
def shared_driver(s3_endpoint):
    """Return the driver of a graph that is expensive to build; tests that use it make it deeper still."""
    made = []

    @cache
    def build(depth, tables):
        driver = Driver(s3_endpoint, depth=depth, tables=tables)
        made.append(driver)
        return driver

    yield build
    for driver in made:
        driver.close()


@pytest.fixture
def driver_at(fresh_driver, shared_driver):
    """Return the driver of a graph of a depth and a width: a fresh one when that is quickly made."""

    def choose(depth, tables):
        is_small = depth <= 10 and tables <= 4
        return fresh_driver(depth, tables) if is_small else shared_driver(depth, tables)

    return choose


@pytest.fixture
def fresh_driver(clean_s3_endpoint):
    """Return a function that builds a graph for one test alone."""
    made = []

    def build(depth=1, tables=4, **kwargs):
        driver = Driver(clean_s3_endpoint, depth=depth, tables=tables, **kwargs)
        made.append(driver)
        return driver

    yield build
    for driver in made:
        driver.close()


@pytest.fixture
def endpoint(clean_s3_endpoint):
    return clean_s3_endpoint
