"""Values with named parts that cannot change."""

from omnigraph.records.frozen import record as record
