"""Values with named parts that cannot change."""

from omnigraph.records.record import record as record
