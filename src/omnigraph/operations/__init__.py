"""Everything that can be asked of a graph, as data: one record in, one record out, executed by a backend."""

from omnigraph.operations.request import Attachments as Attachments
from omnigraph.operations.request import Backend as Backend
from omnigraph.operations.request import Operation as Operation
from omnigraph.operations.request import Request as Request
from omnigraph.operations.request import all_operations as all_operations
