"""The log, tags, references and the list of branches."""

from dataclasses import replace

import pytest
from tests.session_graph import create_graph, open_session
from tests.txn_graph import PERSON, TEAM, authority_of, init_graph, insert, node_rows, open_graph, read_ids

from omnigraph.engine.maintenance.auto import MaintenanceSettings
from omnigraph.engine.maintenance.cleanup import Cleanup
from omnigraph.engine.maintenance.retention import Retention
from omnigraph.errors import (
    BranchExistsError,
    BranchMissingError,
    CommitMissingError,
    HistoryGoneError,
    TagExistsError,
    TagMissingError,
    ValueFormatError,
)
from omnigraph.runtime import ManualClock, Runtime, SystemRandomness
from omnigraph.store.tables.store import reclaim_older
from omnigraph.txn.manifest.codec import encode_commits, encode_state
from omnigraph.txn.manifest.file import StagedManifest
from omnigraph.txn.manifest.lineage import RECENT_LIMIT, CommitCache, CommitLine
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.refs import LogFilter
from omnigraph.values import MAIN, BranchName, CommitId, TagName
from omnigraph.values.temporal import format_datetime

ROOT = BranchName(MAIN)
DRAFT = BranchName("draft")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def graph(tmp_path, clock):
    runtime = Runtime(clock=clock, randomness=SystemRandomness())
    storage = init_graph(tmp_path / "g", runtime=runtime)
    with open_graph(storage, runtime=runtime) as opened:
        yield opened


def add(graph, name, *, table=PERSON, branch=MAIN, actor=None):
    return insert(graph, table, node_rows([name]), branch=branch, actor=actor).commit


def log(graph, *, branch=ROOT, limit=1000, after=None, **wanted):
    return graph.refs.log(branch, LogFilter(**wanted), limit, after)


def ids_at(graph, text, branch=ROOT, table=PERSON):
    snapshot = graph.refs.resolve_ref(text, branch).snapshot
    return sorted(snapshot.table(table).read(columns=["id"])["id"].to_pylist())


class TestLog:
    def test_pages_follow_each_other_without_gap_or_repeat_while_history_grows(self, graph):
        made = [add(graph, f"p{number}").id for number in range(75)]
        seen, after = [], None
        for turn in range(100):
            page = log(graph, limit=7, after=after)
            seen += [commit.id for commit in page.commits]
            after = page.following
            if after is None:
                break
            add(graph, f"meanwhile{turn}")
        assert seen[:-1] == made[::-1]
        assert graph.refs.show(seen[-1], ROOT).parent is None

    def test_a_page_may_go_on_behind_a_commit(self, graph):
        first, second, third = (add(graph, name).id for name in "abc")
        assert [commit.id for commit in log(graph, limit=2, after=third).commits] == [second, first]

    @pytest.mark.parametrize("after", ["", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAV.1"])
    def test_a_place_that_is_not_in_this_history_is_refused(self, graph, after):
        add(graph, "a")
        with pytest.raises(ValueFormatError):
            log(graph, after=after)

    def test_a_place_of_another_branch_is_refused(self, graph):
        graph.create_branch(DRAFT)
        add(graph, "a")
        add(graph, "b", branch=DRAFT)
        add(graph, "c", branch=DRAFT)
        page = log(graph, branch=DRAFT, limit=1)
        add(graph, "d")
        with pytest.raises(ValueFormatError):
            log(graph, after=page.following)

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_page_has_a_positive_size(self, graph, limit):
        with pytest.raises(ValueFormatError):
            log(graph, limit=limit)

    def test_commits_are_found_by_actor_operation_and_type(self, graph):
        person = add(graph, "p", actor="mira").id
        team = add(graph, "t", table=TEAM, actor="jo").id
        branch_writer = graph.branch_writer(ROOT)
        txn = branch_writer.begin(WriteKind.LOAD_MERGE, actor="mira")
        txn.upsert(TEAM, node_rows(["t", "u"], 1))
        merged = branch_writer.commit(txn).commit.id

        def found(**wanted):
            return [commit.id for commit in log(graph, **wanted).commits if commit.parent is not None]

        assert found(actor="mira") == [merged, person]
        assert found(operation="load_merge") == [merged]
        assert found(type_name="Team") == [merged, team]
        assert found(type_name="node:Team", actor="jo") == [team]
        assert found(type_name="Tea") == []

    def test_commits_are_found_by_the_time_they_were_published(self, graph, clock):
        moments = []
        for name in "abc":
            clock.sleep(10)
            moments.append(clock.now_ms())
            add(graph, name)
        chosen = log(graph, since_ms=moments[1], until_ms=moments[1]).commits
        assert [commit.published_at_ms for commit in chosen] == [moments[1]]
        assert len(log(graph, since_ms=moments[1]).commits) == 2
        assert log(graph, until_ms=moments[0] - 11_000).commits == ()

    def test_publishing_times_do_not_go_back_when_a_cleanup_publishes_in_between(self, graph, clock):
        """A cleanup makes a version and no commit, so it must not make the state forget when the last one was."""
        for number in range(RECENT_LIMIT - 1):
            clock.sleep(60)
            newest = add(graph, f"p{number}")
        settings = MaintenanceSettings(threads=1, auto_every=0, unnamed_age_s=0, settle_s=0)
        Cleanup(graph, Retention(keep=2), settings, graph.stores.runtime).run()
        clock.set_back(3600)
        late = add(graph, "clock went back")
        assert late.published_at_ms >= newest.published_at_ms
        assert ids_at(graph, f"main@{format_datetime(newest.published_at_ms)}") == ids_at(graph, "main")

    def test_publishing_times_do_not_go_back_after_a_state_without_recent_commits(self, graph, clock):
        """Graphs hold such states: a cleanup used to fold every commit away."""
        for number in range(RECENT_LIMIT - 1):
            clock.sleep(60)
            newest = add(graph, f"p{number}")
        branch_writer = authority_of(graph)
        services = branch_writer.services
        base = services.load()
        assert len(base.state.recent) == RECENT_LIMIT
        rows = services.manifest._stage_rows(base, encode_commits(base.state.recent))
        state = replace(base.state, version=base.state.version + 1, recent=())
        fragments = (services.manifest._stage_rows(base, encode_state(state)),)
        staged = StagedManifest(state=state, fragments=(*fragments, *base.dataset.fragments[1:], rows))
        uuid = graph.stores.runtime.ids.uuid()
        services.manifest.publish(base, staged, uuid=uuid, properties={})
        clock.set_back(3600)
        assert add(graph, "clock went back").published_at_ms >= newest.published_at_ms

    def test_publishing_times_never_go_back_and_creation_is_when_it_was_asked_for(self, graph, clock):
        branch_writer = graph.branch_writer(ROOT)
        slow = branch_writer.begin(WriteKind.INSERT)
        begun = clock.now_ms()
        clock.sleep(100)
        quick = add(graph, "quick")
        slow.insert(PERSON, node_rows(["slow"]))
        late = branch_writer.commit(slow).commit
        assert late.created_at_ms == begun < quick.created_at_ms
        assert late.published_at_ms >= quick.published_at_ms
        clock._elapsed_s = 0.0
        assert add(graph, "clock went back").published_at_ms == late.published_at_ms

    def test_the_line_of_a_branch_is_its_own_commits_and_what_it_inherited(self, graph):
        first = add(graph, "a").id
        graph.create_branch(DRAFT)
        own = add(graph, "b", branch=DRAFT).id
        add(graph, "c")
        assert [commit.id for commit in log(graph, branch=DRAFT).commits][:2] == [own, first]

    def test_a_page_says_all_about_each_commit(self, graph):
        made = add(graph, "a", actor="mira")
        (shown,) = log(graph, limit=1).to_json()["commits"]
        assert shown["graph_commit_id"] == made.id
        assert (shown["actor_id"], shown["operation"], shown["types"]) == ("mira", "insert", [PERSON])


def test_positions_hold_however_history_is_folded(graph):
    made = [add(graph, f"p{number}").id for number in range(140)]
    loaded = graph.snapshot(ROOT).manifest
    assert loaded.lineage
    line = CommitLine(graph._stores.datasets, loaded, CommitCache())
    assert [line.at(position).id for position in range(1, len(line))] == made
    assert [line.position_of(commit_id) for commit_id in made[::20]] == list(range(1, 141, 20))


class TestReferences:
    def test_ancestors_are_counted_from_the_head(self, graph):
        for name in "abc":
            add(graph, name)
        assert ids_at(graph, "main~0") == ["a", "b", "c"]
        assert ids_at(graph, "main~") == ["a", "b"]
        assert ids_at(graph, "~2") == ["a"]
        assert ids_at(graph, "main~3") == []
        with pytest.raises(CommitMissingError, match="before the start of branch"):
            ids_at(graph, "main~4")

    def test_a_moment_shows_what_a_reader_saw_then(self, graph, clock):
        moments = []
        for name in "abc":
            clock.sleep(60)
            add(graph, name)
            clock.sleep(1)
            moments.append(format_datetime(clock.now_ms()))
        assert [ids_at(graph, f"main@{moment}") for moment in moments] == [["a"], ["a", "b"], ["a", "b", "c"]]
        assert ids_at(graph, f"@{moments[0]}") == ["a"]
        with pytest.raises(CommitMissingError, match="before the start of branch"):
            ids_at(graph, "@2001-01-01")

    def test_a_reference_is_about_the_branch_of_the_caller_unless_it_names_one(self, graph):
        add(graph, "a")
        graph.create_branch(DRAFT)
        add(graph, "b", branch=DRAFT)
        add(graph, "c", branch=DRAFT)
        assert ids_at(graph, "~1", branch=DRAFT) == ["a", "b"]
        assert ids_at(graph, "main", branch=DRAFT) == ["a"]
        assert ids_at(graph, "draft~2") == ["a"]

    @pytest.mark.parametrize("text", ["", "main~x", "main@yesterday", "tag:", "a//b", "~", "@"])
    def test_other_texts_are_refused_or_mean_one_step(self, graph, text):
        add(graph, "a")
        if text == "~":
            assert ids_at(graph, text) == []
        else:
            with pytest.raises(ValueFormatError):
                ids_at(graph, text)

    def test_unknown_things_are_not_found(self, graph):
        for text, error in [("nope", BranchMissingError), ("nope~1", BranchMissingError), ("tag:x", TagMissingError)]:
            with pytest.raises(error):
                ids_at(graph, text)
        with pytest.raises(CommitMissingError):
            ids_at(graph, "01ARZ3NDEKTSV4RRFFQ69G5FAV")

    def test_a_reclaimed_state_is_gone_and_says_which_commit(self, graph):
        first = add(graph, "a")
        add(graph, "b")
        state = graph.refs.resolve_ref(str(first.id), ROOT)
        pin = graph.snapshot(ROOT).entry(PERSON).pin
        graph.reclaim_older([pin])
        with pytest.raises(HistoryGoneError, match=first.id) as caught:
            state.snapshot.table(PERSON)
        assert caught.value.details.commit_id == first.id
        assert caught.value.kind.http_status == 410
        with pytest.raises(HistoryGoneError):
            graph.create_branch(DRAFT, at=str(first.id))

    def test_a_manifest_version_that_was_reclaimed_is_gone_while_its_commit_is_still_listed(self, graph):
        first = add(graph, "a")
        add(graph, "b")
        stores = graph._stores
        newest = graph.snapshot(ROOT).manifest.dataset.pin
        reclaim_older(stores.datasets, newest, ())
        stores.datasets.handles.forget(newest.location)
        assert first in log(graph).commits
        with pytest.raises(HistoryGoneError, match=first.id):
            ids_at(graph, "main~1")
        with pytest.raises(HistoryGoneError):
            graph.create_tag(TagName("v1"), str(first.id))

    def test_a_commit_of_a_deleted_branch_is_not_read_from_the_next_of_its_name(self, graph):
        graph.create_branch(DRAFT)
        old = add(graph, "old", branch=DRAFT)
        graph.delete_branch(DRAFT)
        graph.create_branch(DRAFT)
        later = add(graph, "later", branch=DRAFT)
        assert later.manifest_version == old.manifest_version
        with pytest.raises(CommitMissingError):
            graph.snapshot_of(old)
        with pytest.raises(CommitMissingError):
            ids_at(graph, str(old.id), branch=DRAFT)


class TestTags:
    def test_a_tag_names_a_state_that_stays(self, graph):
        add(graph, "a")
        tag = graph.create_tag(TagName("v1"), actor="mira", message="first")
        add(graph, "b")
        assert ids_at(graph, "tag:v1") == ["a"]
        assert graph.tags.list() == (tag,)
        shown = tag.to_json()
        assert (shown["graph_branch"], shown["actor_id"], shown["message"]) == (MAIN, "mira", "first")

    def test_a_name_is_taken_until_its_tag_is_deleted(self, graph):
        add(graph, "a")
        graph.create_tag(TagName("v1"), "main~1")
        with pytest.raises(TagExistsError):
            graph.create_tag(TagName("v1"))
        graph.delete_tag(TagName("v1"))
        with pytest.raises(TagMissingError):
            graph.delete_tag(TagName("v1"))
        graph.create_tag(TagName("v1"))
        assert ids_at(graph, "tag:v1") == ["a"]

    def test_a_tag_of_an_inherited_commit_does_not_hold_the_branch(self, graph):
        add(graph, "a")
        graph.create_branch(DRAFT)
        graph.create_tag(TagName("v1"), "draft")
        graph.delete_branch(DRAFT)
        assert ids_at(graph, "tag:v1") == ["a"]

    def test_a_tag_spares_the_versions_that_it_names(self, graph):
        add(graph, "a")
        graph.create_tag(TagName("v1"))
        add(graph, "b")
        add(graph, "c")
        graph.reclaim_older([graph.snapshot(ROOT).entry(PERSON).pin])
        assert ids_at(graph, "tag:v1") == ["a"]
        with pytest.raises(HistoryGoneError):
            ids_at(graph, "main~1")

    def test_a_state_that_a_cleanup_may_be_removing_cannot_be_tagged(self, graph):
        commit = add(graph, "a")
        line = graph.branch_incarnation(ROOT)
        with pytest.raises(HistoryGoneError):
            graph.tags.create(TagName("v1"), commit, line, lambda: False, None, None)
        assert graph.tags.list() == ()


class TestBranches:
    def test_a_branch_may_begin_at_a_tag_a_commit_or_a_moment(self, graph, clock):
        first = add(graph, "a")
        graph.create_tag(TagName("v1"))
        clock.sleep(60)
        add(graph, "b")
        for name, at in [("x", "tag:v1"), ("y", str(first.id)), ("z", "main~1")]:
            made = graph.create_branch(BranchName(name), at=at)
            assert made.forked_at == first.id
            add(graph, "own", branch=name)
            assert read_ids(graph, PERSON, name) == ["a", "own"]

    def test_an_inherited_commit_is_forked_from_where_it_landed(self, graph):
        add(graph, "a")
        graph.create_branch(DRAFT)
        add(graph, "b", branch=DRAFT)
        graph.create_branch(BranchName("other"), at="draft~1")
        graph.delete_branch(DRAFT)
        assert read_ids(graph, PERSON, "other") == ["a"]

    def test_the_list_tells_how_branches_stand_to_each_other(self, graph):
        add(graph, "a", actor="ann")
        fork = graph.create_branch(DRAFT, actor="jo")
        (untouched,) = [status for status in graph.branches() if status.name == DRAFT]
        assert (untouched.ahead, untouched.behind, untouched.last_actor) == (0, 0, "ann")
        add(graph, "b", branch=DRAFT, actor="mira")
        add(graph, "c", branch=DRAFT, actor="mira")
        add(graph, "d")
        main, draft = graph.branches()
        assert (main.name, main.parent, main.ahead, main.behind) == (MAIN, None, 0, 0)
        assert (draft.name, draft.parent, draft.forked_at) == (DRAFT, MAIN, fork.forked_at)
        assert (draft.ahead, draft.behind, draft.last_actor, draft.created_by) == (2, 1, "mira", "jo")
        assert draft.to_json()["head"]["actor_id"] == "mira"

    def test_what_was_merged_counts_as_had(self, graph):
        graph.create_branch(DRAFT)
        add(graph, "b", branch=DRAFT)
        head = add(graph, "c", branch=DRAFT).id
        insert(graph, PERSON, node_rows(["c"]), merged_parent=CommitId(head))
        _, draft = graph.branches()
        assert (draft.ahead, draft.behind) == (0, 1)

    def test_forks_and_tags_are_protected(self, graph):
        add(graph, "a")
        graph.create_branch(DRAFT)
        add(graph, "b", branch=DRAFT)
        add(graph, "c")
        graph.create_tag(TagName("v1"), "main~1")
        found = {(item.line.name, item.version, item.why) for item in graph.protected_versions()}
        assert found == {(MAIN, 2, "fork"), (MAIN, 2, "tag")}

    @pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a")])
    def test_overlapping_names_are_refused_before_anything_is_written(self, graph, first, second):
        graph.create_branch(BranchName(first))
        before = graph._stores.control.list_keys("__manifest")
        with pytest.raises(BranchExistsError):
            graph.create_branch(BranchName(second))
        assert graph._stores.control.list_keys("__manifest") == before


def test_a_session_reads_at_any_reference_and_tells_its_history(tmp_path):
    create_graph(tmp_path / "g", "node Person { name: String @key }")
    names = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"
    text = "query add($n: String) { insert Person { name: $n } }"
    with open_session(tmp_path / "g") as session:
        for name in "ab":
            session.mutate(text, {"n": name}, actor="mira")
        session.create_tag("v1", "main~1")
        session.create_branch("draft", at="tag:v1")
        session.mutate(text, {"n": "c"}, branch="draft")
        page = session.log(actor="mira", type_name="Person", limit=1)

        def read(**where):
            return [row["p.name"] for row in session.query(names, **where).rows()]

        assert read(at="tag:v1") == ["a"]
        assert read(at="~1", branch="draft") == ["a"]
        assert read(at="draft") == ["a", "c"]
        assert session.get_commit(page.commits[0].id).actor == "mira"
        assert [status.name for status in session.list_branches()] == [MAIN, "draft"]
        session.delete_tag("v1")
        session.delete_branch("draft")
        assert session.list_tags() == ()


def test_a_session_writes_to_a_branch_that_others_deleted_and_made_again(tmp_path):
    create_graph(tmp_path / "g", "node Person { name: String @key }")
    text = "query add($n: String) { insert Person { name: $n } }"
    with open_session(tmp_path / "g") as session, open_session(tmp_path / "g") as other:
        session.create_branch("draft")
        other.mutate(text, {"n": "a"}, branch="draft")
        session.delete_branch("draft")
        session.create_branch("draft")
        other.mutate(text, {"n": "b"}, branch="draft")
        names = "query names() { match { $p: Person } return { $p.name } }"
        assert session.query(names, branch="draft").rows() == [{"p.name": "b"}]
