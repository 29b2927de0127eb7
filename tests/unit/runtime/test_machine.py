"""How much memory a process may use: never more than its machine has or its control group allows."""

from __future__ import annotations

from omnigraph.runtime import memory_bytes
from omnigraph.runtime.process import group_limits


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return list(group_limits(root))


def test_there_is_memory_to_use():
    assert (16 << 20) < memory_bytes() < 1 << 62


def test_a_group_is_bound_by_those_that_it_lies_in(tmp_path):
    found = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/pods/one\n",
            "sys/fs/cgroup/memory.max": "max\n",
            "sys/fs/cgroup/pods/memory.max": "8000\n",
            "sys/fs/cgroup/pods/one/memory.max": "9000\n",
        },
    )
    assert sorted(found) == [8000, 9000]


def test_inside_a_container_the_top_group_counts_though_its_path_is_the_one_of_the_host(tmp_path):
    found = write(tmp_path, {"proc/self/cgroup": "0::/../outside\n", "sys/fs/cgroup/memory.max": "5000\n"})
    assert found == [5000]


def test_groups_of_the_older_kind_are_known_too(tmp_path):
    found = write(
        tmp_path,
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "7000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert sorted(found) == [7000, 9223372036854771712]


def test_without_groups_nothing_is_bound(tmp_path):
    assert write(tmp_path, {}) == []
