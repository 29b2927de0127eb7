"""The command as people and scripts meet it: text, JSON, exit codes, and nothing on the wrong stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.process import copy_people, omnigraph

USAGE_HINT = "code: usage\n"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return copy_people(tmp_path)


def write(folder: Path, name: str, text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    (folder / name).write_bytes(data)
    return name


def error_of(out: str) -> dict[str, object]:
    document = json.loads(out)
    assert list(document) == ["error"]
    error: dict[str, object] = document["error"]
    return error


class TestVersion:
    @pytest.mark.parametrize("flag", ["-v", "--version"])
    def test_flag_prints_one_line(self, tmp_path: Path, flag: str):
        found = omnigraph(flag, cwd=tmp_path)
        assert (found.code, found.out) == (0, "omnigraph 0.1.0\n")


class TestUsage:
    @pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["schema"], ["schema", "--help"], ["fmt", "-h"]])
    def test_help_is_a_result(self, tmp_path: Path, arguments: list[str]):
        found = omnigraph(*arguments, cwd=tmp_path)
        assert found.code == 0
        assert found.out.startswith("Usage: omnigraph")
        assert found.err == ""

    def test_unknown_command_names_the_nearest(self, tmp_path: Path):
        found = omnigraph("lnit", cwd=tmp_path)
        assert found.code == 2
        assert found.out == ""
        assert found.err == (
            "error: no such command 'lnit'; did you mean 'lint'?\nhint: see `omnigraph --help`\ncode: usage\n"
        )

    @pytest.mark.parametrize(
        ("word", "advice"),
        [
            ("log", "use `commit list`"),
            ("checkout", "commands name their branch with --branch; use `branch create` for a new one"),
            ("add", "a graph has no working copy: load and mutate commit at once"),
            ("backup", "use `export`, then `init` and `load`, to copy a graph"),
            ("describe", "use `status`, `snapshot` or `schema show`"),
            ("drop", "use `branch delete` for a branch, `schema apply` for a type"),
            ("sql", "use `query`: omnigraph has a query language of its own"),
            (
                "push",
                "a graph has no remote copy: every command works on the graph that GRAPH, --store or --server names",
            ),
        ],
    )
    def test_word_of_another_tool_gets_the_word_of_this_one(self, tmp_path: Path, word: str, advice: str):
        found = omnigraph(word, cwd=tmp_path)
        assert (found.code, found.out) == (2, "")
        assert found.err.startswith(f"error: no such command '{word}'; {advice}\n")

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["frobnicate"], "error: no such command 'frobnicate'\nhint: see `omnigraph --help`\n"),
            (["tag", "frobnicate"], "error: no such command 'frobnicate'; the commands are create, list, delete\n"),
            (
                ["load", "g", "--data", "x.jsonl"],
                "error: missing option '--mode'; choose from append, merge, overwrite, apply\n",
            ),
            (
                ["load", "g", "people.csv", "--mode", "merge"],
                (
                    "error: unexpected argument people.csv\nhint: name files with --data FILE, and "
                    "files with rows of one type"
                ),
            ),
            (
                ["init", "g", "--schema", "node A { x: I64 @key }"],
                (
                    "error: file 'node A { x: I64 @key }' was not found\nhint: this looks like the "
                    "text itself: save it to a file"
                ),
            ),
        ],
    )
    def test_a_wrong_call_says_what_to_write(self, tmp_path: Path, arguments: list[str], error: str):
        found = omnigraph(*arguments, cwd=tmp_path)
        assert (found.code, found.out) in {(2, ""), (5, "")}
        assert found.err.startswith(error)

    @pytest.mark.parametrize(
        "arguments",
        [
            ["lint", "--schema"],
            ["lint", "--nonsense"],
            ["--nonsense"],
            ["schema", "frobnicate"],
            ["schema", "plan", "--from", "a.pg"],
            ["fmt"],
            ["fmt", "a.txt"],
            ["fmt", "-"],
            ["fmt", "--language", "sql", "-"],
            ["version", "extra"],
        ],
    )
    def test_mistakes_in_the_arguments_exit_with_2(self, tmp_path: Path, arguments: list[str]):
        found = omnigraph(*arguments, cwd=tmp_path)
        assert found.code == 2
        assert found.out == ""
        assert found.err.startswith("error: ")
        assert found.err.endswith(USAGE_HINT)

    def test_mistake_is_json_when_json_is_asked_for(self, tmp_path: Path):
        found = omnigraph("load", "--json", cwd=tmp_path)
        assert found.code == 2
        assert found.err == ""
        error = error_of(found.out)
        assert (error["code"], error["kind"]) == ("usage", "invalid")
        assert error["hint"] == "see `omnigraph load --help`"

    def test_standard_input_is_read_once(self, people: Path):
        found = omnigraph("lint", "--schema", "-", "--query", "-", cwd=people)
        assert found.code == 2
        assert "standard input can be read only once" in found.err


class TestFiles:
    def test_missing_file_in_json(self, people: Path):
        found = omnigraph("lint", "--schema", "nowhere/x", "--json", cwd=people)
        assert (found.code, found.err) == (5, "")
        error = error_of(found.out)
        assert error["details"] == {"what": "file", "name": "nowhere/x", "near": []}

    def test_directory_is_no_file(self, people: Path):
        found = omnigraph("lint", "--schema", ".", cwd=people)
        assert found.code == 2
        assert found.err.startswith("error: file '.' is not readable: it is a directory\n")

    def test_path_through_a_file_is_no_file(self, people: Path):
        found = omnigraph("lint", "--schema", "schema.pg/x", cwd=people)
        assert found.code == 2
        assert "code: file.access" in found.err

    def test_bytes_that_are_no_text_are_refused_with_their_place(self, people: Path):
        write(people, "latin.pg", b"// caf\xe9\nnode A { a: String }\n")
        found = omnigraph("lint", "--schema", "latin.pg", cwd=people)
        assert found.code == 2
        assert found.err.startswith("error: latin.pg:1:7: source is not valid UTF-8\n")
        assert found.err.endswith("code: source.encoding\n")

    def test_too_large_source_exits_with_9(self, people: Path):
        write(people, "large.pg", b" " * (1 << 20) + b"node A { }")
        found = omnigraph("lint", "--schema", "large.pg", cwd=people)
        assert found.code == 9
        assert "code: source.too_large" in found.err

    def test_endless_device_ends(self, people: Path):
        found = omnigraph("lint", "--schema", "/dev/zero", cwd=people)
        assert found.code == 9

    def test_file_name_that_is_no_text_does_not_break_the_output(self, people: Path):
        found = omnigraph("lint", "--schema", "caf\udce9.pg", "--json", cwd=people)
        assert found.code == 5
        assert error_of(found.out)["code"] == "file.not_found"

    def test_non_ascii_text_survives_a_terminal_that_cannot_say_it(self, tmp_path: Path):
        source = "// Grüße\nnode A {}\n"
        found = omnigraph("fmt", "--language", "pg", "-", cwd=tmp_path, stdin=source, PYTHONIOENCODING="ascii")
        assert (found.code, found.out) == (0, source)


class TestLintSchema:
    def test_clean_schema_is_ok(self, people: Path):
        found = omnigraph("lint", "--schema", "schema.pg", cwd=people)
        assert (found.code, found.out, found.err) == (0, "OK    schema.pg\n0 errors, 0 warnings, 0 infos\n", "")

    def test_findings_have_a_label_a_code_and_a_place(self, people: Path):
        write(people, "odd.pg", 'node A {\n    name: String @key @onwer("x")\n}\nedge To: A -> A\n')
        found = omnigraph("lint", "--schema", "odd.pg", cwd=people)
        assert found.code == 0
        warning, info, totals = found.out.splitlines()
        assert warning.startswith("WARN  OG-NM-201 odd.pg:2:23: annotation @onwer has no effect here")
        assert info.startswith("INFO  OG-ED-201 odd.pg:4:6: edge type To has no @key")
        assert totals == "0 errors, 1 warning, 1 info"

    def test_finding_that_is_an_error_exits_with_2(self, people: Path):
        write(people, "empty.pg", "node A { name: String @key  age: I32?  @range(age, 9..1) }\n")
        found = omnigraph("lint", "--schema", "empty.pg", "--json", cwd=people)
        assert found.code == 2
        report = json.loads(found.out)
        assert list(report) == ["status", "schema_source", "errors", "warnings", "infos", "findings"]
        assert (report["status"], report["errors"]) == ("error", 1)
        assert report["schema_source"] == {"kind": "file", "path": "empty.pg"}
        assert report["findings"][0]["code"] == "OG-MF-201"
        assert report["findings"][0]["place"] == {"line": 1, "column": 52}

    def test_schema_that_does_not_parse_shows_line_and_caret(self, people: Path):
        write(people, "broken.pg", "node Person {\n    name String\n}\n")
        found = omnigraph("lint", "--schema", "broken.pg", cwd=people)
        assert found.code == 2
        assert found.out == ""
        assert found.err == (
            "error: broken.pg:2:10: syntax error: unexpected 'String'; expected ':'\n"
            "2 |     name String\n"
            "  |          ^^^^^^\n"
            "  = suggestion: write ':' here\n"
            "code: schema.syntax\n"
        )

    def test_schema_that_contradicts_itself_names_the_rule_in_json(self, people: Path):
        write(people, "wrong.pg", "node A { a: String? @key }\n")
        found = omnigraph("lint", "--schema", "wrong.pg", "--json", cwd=people)
        assert (found.code, found.err) == (2, "")
        error = error_of(found.out)
        assert error["code"] == "schema.check"
        details = error["details"]
        assert isinstance(details, dict)
        assert (details["rule"], details["place"]["line"]) == ("key_nullable", 1)

    def test_reads_standard_input(self, people: Path):
        found = omnigraph("lint", "--schema", "-", cwd=people, stdin="node A { name: String @key }\n")
        assert (found.code, found.out) == (0, "OK    <stdin>\n0 errors, 0 warnings, 0 infos\n")


class TestLintQueries:
    def test_every_query_of_the_example_fits(self, people: Path):
        found = omnigraph("lint", "--schema", "schema.pg", "--query", "queries.gq", cwd=people)
        assert found.code == 0
        lines = found.out.splitlines()
        assert lines[0] == "OK    find_person (read)"
        assert lines[-2:] == ["OK    forget (mutation)", "11 queries processed, 0 errors, 0 warnings, 0 infos"]
        assert found.err == ""

    def test_one_bad_query_fails_and_the_others_are_still_checked(self, people: Path):
        write(
            people,
            "mine.gq",
            "query a() { match { $p: Persn } return { $p.name } }\n"
            'query b() { insert Team { code: "x", name: "y" } }\n'
            "query c($s: String) { update Person set { age: 1 } where slug = $s }\n",
        )
        found = omnigraph("lint", "--schema", "schema.pg", "--query", "mine.gq", cwd=people)
        assert found.code == 2
        lines = found.out.splitlines()
        assert lines[:6] == [
            "ERROR a (read): mine.gq:1:25: type error: T1: unknown node type 'Persn'",
            "      1 | query a() { match { $p: Persn } return { $p.name } }",
            "        |                         ^^^^^",
            "        = suggestion: did you mean 'Person'?",
            "OK    b (mutation)",
            "WARN  b (mutation): mutation declares no parameters, so every run does the same",
        ]
        unset = [line for line in lines if line.startswith("WARN  L201 ")]
        assert len(unset) == 4
        assert lines[-1] == "3 queries processed, 1 error, 5 warnings, 0 infos"

    def test_json_report_has_the_promised_members(self, people: Path):
        write(
            people,
            "mine.gq",
            "query names() { match { $t: Team } return { $t.name, count($t) as n } }\n"
            "query wrong() { match { $t: Team } return { $t.nmae } }\n",
        )
        found = omnigraph("lint", "--schema", "schema.pg", "--query", "mine.gq", "--json", cwd=people)
        assert (found.code, found.err) == (2, "")
        report = json.loads(found.out)
        assert report == {
            "status": "error",
            "schema_source": {"kind": "file", "path": "schema.pg"},
            "query_path": "mine.gq",
            "queries_processed": 2,
            "errors": 1,
            "warnings": 0,
            "infos": 0,
            "results": [
                {
                    "name": "names",
                    "kind": "read",
                    "status": "ok",
                    "operation": {
                        "result": [
                            {"name": "name", "kind": "string", "nullable": False},
                            {"name": "n", "kind": "bigint", "nullable": True},
                        ],
                        "reads": [{"kind": "node", "type_name": "Team"}],
                        "writes": [],
                    },
                },
                {
                    "name": "wrong",
                    "kind": "read",
                    "status": "error",
                    "error": "type error: T6: type 'Team' has no property 'nmae'",
                },
            ],
            "findings": [],
        }

    def test_file_that_does_not_parse_is_the_only_finding(self, people: Path):
        write(people, "mine.gq", "query a() { match { $p: Person } retrun { $p } }\n")
        found = omnigraph("lint", "--schema", "schema.pg", "--query", "mine.gq", cwd=people)
        assert found.code == 2
        lines = found.out.splitlines()
        assert lines[0].startswith("ERROR Q000 mine.gq:1:34: syntax error: unexpected 'retrun'")
        assert lines[-1] == "0 queries processed, 1 error, 0 warnings, 0 infos"

    def test_file_that_does_not_parse_in_json(self, people: Path):
        found = omnigraph("lint", "--schema", "schema.pg", "--query", "-", "--json", cwd=people, stdin="query")
        assert found.code == 2
        report = json.loads(found.out)
        assert (report["status"], report["queries_processed"], report["query_path"]) == ("error", 0, "<stdin>")
        assert [finding["code"] for finding in report["findings"]] == ["Q000"]

    def test_several_files_are_summed_up(self, people: Path):
        write(people, "a.gq", "query a() { match { $t: Team } return { $t.name } }\n")
        write(people, "b.gq", "query b() { match { $t: Tem } return { $t.name } }\n")
        arguments = ["lint", "--schema", "schema.pg", "--query", "a.gq", "--query", "b.gq"]
        found = omnigraph(*arguments, "--json", cwd=people)
        assert found.code == 2
        report = json.loads(found.out)
        assert {name: report[name] for name in ("status", "queries_processed", "errors")} == {
            "status": "error",
            "queries_processed": 2,
            "errors": 1,
        }
        assert [part["query_path"] for part in report["reports"]] == ["a.gq", "b.gq"]
        text = omnigraph(*arguments, cwd=people).out
        assert text.startswith("OK    a (read)\nERROR b (read): b.gq:1:25: ")


class TestFmt:
    UGLY = "node City{name:String @key}"
    PRETTY = "node City {\n    name: String @key\n}\n"

    def test_rewrites_in_place_and_keeps_the_mode(self, people: Path):
        write(people, "city.pg", self.UGLY)
        (people / "city.pg").chmod(0o640)
        before = set(people.iterdir())
        found = omnigraph("fmt", "city.pg", "schema.pg", cwd=people)
        assert (found.code, found.out, found.err) == (0, "formatted city.pg\nunchanged schema.pg\n", "")
        assert (people / "city.pg").read_text() == self.PRETTY
        assert (people / "city.pg").stat().st_mode & 0o777 == 0o640
        assert set(people.iterdir()) == before

    def test_writes_through_a_symbolic_link(self, people: Path):
        write(people, "real.pg", self.UGLY)
        (people / "link.pg").symlink_to("real.pg")
        assert omnigraph("fmt", "link.pg", cwd=people).code == 0
        assert (people / "link.pg").is_symlink()
        assert (people / "real.pg").read_text() == self.PRETTY

    def test_check_changes_nothing_and_exits_with_2(self, people: Path):
        write(people, "city.pg", self.UGLY)
        found = omnigraph("fmt", "--check", "city.pg", "schema.pg", cwd=people)
        assert (found.code, found.out) == (2, "would format city.pg\nunchanged schema.pg\n")
        assert (people / "city.pg").read_text() == self.UGLY

    def test_check_of_formatted_files_succeeds(self, people: Path):
        found = omnigraph("fmt", "--check", "schema.pg", "schema-v2.pg", "queries.gq", cwd=people)
        assert found.code == 0
        assert found.out == "unchanged schema.pg\nunchanged schema-v2.pg\nunchanged queries.gq\n"

    def test_diff_changes_nothing_and_prints_what_would(self, people: Path):
        write(people, "city.pg", self.UGLY + "\n")
        found = omnigraph("fmt", "--diff", "city.pg", cwd=people)
        assert found.code == 0
        assert found.out == (
            "--- city.pg\n+++ city.pg (formatted)\n@@ -1 +1,3 @@\n"
            "-node City{name:String @key}\n+node City {\n+    name: String @key\n+}\n"
        )
        assert (people / "city.pg").read_text() == self.UGLY + "\n"
        assert omnigraph("fmt", "--diff", "--check", "city.pg", cwd=people).code == 2

    def test_file_that_does_not_parse_is_left_alone_and_the_rest_is_formatted(self, people: Path):
        write(people, "bad.gq", "query {")
        write(people, "city.pg", self.UGLY)
        found = omnigraph("fmt", "bad.gq", "missing.pg", "city.pg", cwd=people)
        assert found.code == 2
        assert found.out == "formatted city.pg\n"
        assert found.err.startswith("error: bad.gq:1:7: syntax error: unexpected '{'")
        assert "error: file 'missing.pg' was not found\n" in found.err
        assert (people / "bad.gq").read_text() == "query {"
        assert (people / "city.pg").read_text() == self.PRETTY

    def test_exit_code_is_that_of_the_first_error(self, people: Path):
        write(people, "bad.gq", "query {")
        assert omnigraph("fmt", "missing.pg", "bad.gq", cwd=people).code == 5

    def test_standard_input_becomes_standard_output(self, tmp_path: Path):
        found = omnigraph("fmt", "--language", "pg", "-", cwd=tmp_path, stdin=self.UGLY)
        assert (found.code, found.out) == (0, self.PRETTY)
        empty = omnigraph("fmt", "--language", "gq", "-", cwd=tmp_path)
        assert (empty.code, empty.out) == (0, "")

    def test_line_endings_count_as_a_difference(self, people: Path):
        write(people, "city.pg", self.PRETTY.replace("\n", "\r\n"))
        assert omnigraph("fmt", "--check", "city.pg", cwd=people).code == 2
        assert omnigraph("fmt", "city.pg", cwd=people).out == "formatted city.pg\n"
        assert (people / "city.pg").read_bytes() == self.PRETTY.encode()

    def test_json_lists_every_file(self, people: Path):
        write(people, "city.pg", self.UGLY)
        write(people, "bad.gq", "query {")
        found = omnigraph("fmt", "--check", "city.pg", "bad.gq", "--json", cwd=people)
        assert (found.code, found.err) == (2, "")
        report = json.loads(found.out)
        assert report["check"] is True
        assert [(one["path"], one["status"]) for one in report["files"]] == [
            ("city.pg", "would_format"),
            ("bad.gq", "failed"),
        ]
        assert report["files"][1]["error"]["code"] == "query.syntax"

    def test_json_of_standard_input_holds_the_text(self, tmp_path: Path):
        found = omnigraph("fmt", "--language", "pg", "-", "--json", cwd=tmp_path, stdin=self.UGLY)
        files = json.loads(found.out)["files"]
        assert files == [{"path": "-", "status": "formatted", "text": self.PRETTY}]


class TestSchemaPlan:
    def test_steps_are_listed_in_order(self, people: Path):
        found = omnigraph("schema", "plan", "--from", "schema.pg", "--schema", "schema-v2.pg", cwd=people)
        assert found.code == 0
        lines = found.out.splitlines()
        assert lines[:3] == [
            "schema plan schema.pg -> schema-v2.pg",
            "supported: yes",
            "- rename node type Person to Member",
        ]
        assert all(line.startswith("- ") for line in lines[2:])
        assert len(lines) == 13

    def test_refused_plan_is_printed_and_exits_with_2(self, people: Path):
        write(people, "old.pg", "node City { name: String @key }")
        write(people, "new.pg", "node City { name: String @key  size: U32 }")
        found = omnigraph("schema", "plan", "--from", "old.pg", "--schema", "new.pg", cwd=people)
        assert found.code == 2
        assert found.err == ""
        lines = found.out.splitlines()
        assert lines[:2] == ["schema plan old.pg -> new.pg", "supported: no"]
        assert lines[2].startswith("- unsupported change on node:City.size: ")
        assert lines[2].endswith("[OG-MF-103, validated]")

    def test_data_loss_makes_drops_hard(self, people: Path):
        write(people, "old.pg", "node City { name: String @key  size: U32? }")
        write(people, "new.pg", "node City { name: String @key }")
        arguments = ["schema", "plan", "--from", "old.pg", "--schema", "new.pg", "--json"]
        soft = json.loads(omnigraph(*arguments, cwd=people).out)
        hard = json.loads(omnigraph(*arguments, "--allow-data-loss", cwd=people).out)
        assert [step["mode"] for step in (*soft["steps"], *hard["steps"])] == ["soft", "hard"]

    def test_hint_without_effect_is_a_warning(self, people: Path):
        write(people, "old.pg", "node City { name: String @key }")
        write(people, "new.pg", 'node City @rename_from("Town") { name: String @key }')
        arguments = ["schema", "plan", "--from", "old.pg", "--schema", "new.pg"]
        found = omnigraph(*arguments, cwd=people)
        assert found.code == 0
        assert found.err.startswith("warning: new.pg:1:11: @rename_from")
        report = json.loads(omnigraph(*arguments, "--json", cwd=people).out)
        assert [one["code"] for one in report["diagnostics"]] == ["ignored_exact_match_rename_hint"]

    def test_hint_that_leads_nowhere_is_an_error(self, people: Path):
        write(people, "old.pg", "node City { name: String @key }")
        write(people, "new.pg", 'node Place @rename_from("Town") { name: String @key }')
        found = omnigraph("schema", "plan", "--from", "old.pg", "--schema", "new.pg", cwd=people)
        assert (found.code, found.out) == (2, "")
        assert found.err.endswith("code: schema.plan\n")
