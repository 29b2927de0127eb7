"""A counting S3 endpoint for tests: real S3 semantics, with latency, a cap on concurrency and faults on demand."""

from omnigraph.testing.s3.calls import Call, ObjectClass, Operation, classify_key
from omnigraph.testing.s3.endpoint import OBSTORE_WITHOUT_RETRIES, S3Endpoint
from omnigraph.testing.s3.faults import FOREVER, Fault
from omnigraph.testing.s3.measurement import Measurement, measure, serial_hops

__all__ = [
    "FOREVER",
    "OBSTORE_WITHOUT_RETRIES",
    "Call",
    "Fault",
    "Measurement",
    "ObjectClass",
    "Operation",
    "S3Endpoint",
    "classify_key",
    "measure",
    "serial_hops",
]
