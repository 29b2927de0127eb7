"""An apply that dies anywhere, or whose storage fails at any call: the next one ends where an undisturbed one does."""

import pytest

from tests.cluster_directory import ClusterDirectory
from tests.crash.cluster_child import ClusterJob
from tests.crash.cluster_scenes import CHOSEN_CRASHES, SCENES, audit, converge, copy_directory, prepare
from tests.crash.dying import crash_together
from tests.crash.matrix import IS_FULL
from tests.crash.nth_call import TROUBLES


class Ground:
    """Clusters of one store that stand where a scene begins."""

    def __init__(self, store, folder, endpoint):
        self._store = store
        self._folder = folder
        self._endpoint = endpoint
        self._count = 0
        self._templates = {}
        self._undisturbed = {}

    def fresh(self, scene) -> ClusterDirectory:
        """Return a cluster before the apply of a scene."""
        self._count += 1
        path = self._folder / f"c{self._count}"
        if self._store == "s3":
            return prepare(SCENES[scene], path, self._endpoint.fresh_prefix(), self._endpoint.storage_options)
        if scene not in self._templates:
            self._templates[scene] = prepare(SCENES[scene], self._folder / scene, None, None)
        return copy_directory(self._templates[scene], path)

    def undisturbed(self, scene) -> dict:
        """Return what the auditor finds when nothing goes wrong."""
        if scene not in self._undisturbed:
            directory = self.fresh(scene)
            converge(directory)
            self._undisturbed[scene] = audit(directory)
        return self._undisturbed[scene]


@pytest.fixture(scope="module")
def ground_of(tmp_path_factory, request):
    known = {}

    def make(store):
        if store not in known:
            endpoint = request.getfixturevalue("s3_endpoint") if store == "s3" else None
            known[store] = Ground(store, tmp_path_factory.mktemp(store), endpoint)
        return known[store]

    return make


@pytest.mark.parametrize("store", ["local", pytest.param("s3", marks=pytest.mark.more)])
def test_an_apply_killed_anywhere_is_finished_by_the_next_one(store, ground_of):
    ground = ground_of(store)
    killed = {crash: ground.fresh(crash.scene) for crash in CHOSEN_CRASHES[store]}
    crash_together(
        ClusterJob(
            name=crash.name,
            root=str(directory.path),
            options=directory.options,
            kind=crash.scene,
            act="apply",
            point=crash.point,
            nth=crash.nth,
        )
        for crash, directory in killed.items()
    )
    for crash, directory in killed.items():
        converge(directory)
        assert audit(directory) == ground.undisturbed(crash.scene), crash.name


# The calls that are failed in turn: all of them, in parts that run side by side, or some that are spread over the
# apply.
_PARTS = 8 if IS_FULL else 1
_STEP = _PARTS if IS_FULL else 29
_MOST_CALLS = 400


@pytest.mark.more
@pytest.mark.parametrize("part", range(1, _PARTS + 1))
@pytest.mark.parametrize("trouble", TROUBLES if IS_FULL else TROUBLES[:2], ids=lambda trouble: trouble.name)
def test_an_apply_whose_storage_fails_at_a_call_is_finished_by_the_next_one(
    trouble, part, ground_of, clean_s3_endpoint
):
    ground = ground_of("s3")
    for nth in range(part, _MOST_CALLS, _STEP):
        directory = ground.fresh("changing")
        since = clean_s3_endpoint.last_sequence()
        fault = trouble.on_call(nth, directory.root.rpartition("/")[2])
        number = clean_s3_endpoint.add_fault(fault)
        options, directory.options = directory.options, clean_s3_endpoint.storage_options_without_retries
        report = directory.session().apply(actor="act-mira")
        clean_s3_endpoint.clear_faults()
        directory.options = options
        is_hit = any(call.fault == number for call in clean_s3_endpoint.calls(since=since))
        assert is_hit or report.is_converged
        converge(directory, outlived=True)
        assert audit(directory, outlived=True) == ground.undisturbed("changing"), f"{trouble.name} at call {nth}"
        if not is_hit:
            break
    else:
        pytest.fail("the apply never passed untouched")
    assert nth > _STEP
