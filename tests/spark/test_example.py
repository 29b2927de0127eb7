"""The example pipeline runs to its end and shows what it promises."""

from __future__ import annotations

import importlib.util

from tests.e2e.process import ROOT


def test_pipeline_cleans_loads_reviews_and_merges(spark, tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("spark_pipeline", ROOT / "examples" / "spark_pipeline.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(tmp_path, spark)
    assert capsys.readouterr().out.splitlines() == [
        "loaded 5 rows into branch import, 0 were there already",
        '  insert WorksIn ["cem","core"]',
        '  insert WorksIn ["ida","core"]',
        "  insert Person cem",
        "  insert Person ida",
        "  update Person mira",
        "conflicts: 0",
        "merged: fast_forward",
    ]
