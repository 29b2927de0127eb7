import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.query.topology.test_expansion import SEEDED

from omnigraph.engine.query.topology.image import ranks_of

IDS = st.one_of(
    st.lists(st.text(max_size=5), unique=True, max_size=20),
    st.lists(st.text("ab\0é", min_size=4, max_size=4), unique=True, max_size=20),
    st.lists(st.text("abcd", min_size=3, max_size=3), unique=True, max_size=20).map(sorted),
)


@SEEDED
@given(IDS, st.integers(0, 20), st.integers(0, 3))
def test_ids_are_ranked_by_code_point(ids, cut, skipped):
    whole = pa.array(ids, pa.string())
    chunks = pa.chunked_array([whole.slice(0, cut), whole.slice(cut)]).slice(skipped)
    left = ids[skipped:]
    in_order = sorted(left, key=lambda text: text.encode())
    assert ranks_of(chunks).tolist() == [in_order.index(text) for text in left]
