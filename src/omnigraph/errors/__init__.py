"""The error family: one root, a class per code; every class of the room can be imported from here.

A class registers itself under its code. The table and the tree of all classes are in ``docs/user/errors.md``, which
``docs/generate.py`` writes from the classes.
"""

# A star brings what a module defines, so that no name is listed twice.
# ruff: noqa: F403

from omnigraph.errors.access import *
from omnigraph.errors.agents import *
from omnigraph.errors.base import *
from omnigraph.errors.clusters import *
from omnigraph.errors.data import *
from omnigraph.errors.details import *
from omnigraph.errors.general import *
from omnigraph.errors.history import *
from omnigraph.errors.language import *
from omnigraph.errors.pipelines import *
from omnigraph.errors.query import *
from omnigraph.errors.remote import *
from omnigraph.errors.server import *
from omnigraph.errors.spark import *
from omnigraph.errors.storage import *
from omnigraph.errors.txn import *
