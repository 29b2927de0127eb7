"""``omnigraph cluster init`` and ``validate``: the directory, before anything is applied."""

from __future__ import annotations

from omnigraph.cli.commands.cluster.options import ConfigDir
from omnigraph.cli.lazy import new_app
from omnigraph.cli.options import AsJson
from omnigraph.cli.output import PlainReport, choose_output

init_app = new_app()
validate_app = new_app()


@init_app.command()
def init(*, config: ConfigDir = ".", as_json: AsJson = False) -> int:
    """Write an example of a cluster: a config with comments, a schema, queries and policies.

    The example is valid without changes. Nothing is written if one of its files already exists.
    """
    from omnigraph.cluster.example import write_example  # noqa: PLC0415 - for a command line that makes sense

    files = write_example(config)
    document = {"config_dir": config, "files": list(files)}
    choose_output(as_json=as_json).show(PlainReport(document=document, lines=[f"wrote {file}" for file in files]))
    return 0


@validate_app.command()
def validate(*, config: ConfigDir = ".", as_json: AsJson = False) -> int:
    """Check the directory of a cluster: its config, schemas, queries and policies; each finding has file and line.

    Checks only the files, not the applied state. Exits with the code of the kind of the first error.
    """
    from omnigraph.cluster.config.validation import validate_cluster  # noqa: PLC0415 - it brings both languages

    report = validate_cluster(config)
    choose_output(as_json=as_json).show(report)
    return report.findings.exit_code
