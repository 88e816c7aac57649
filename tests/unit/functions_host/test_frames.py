from hypothesis import given
from hypothesis import strategies as st

from devstack.functions_host.frames import Decoder, Frame, Kind, encode

frames = st.builds(
    Frame,
    st.sampled_from(Kind),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-9, 9)),
    st.binary(max_size=300),
)


@given(sent=st.lists(frames, max_size=6), cut=st.integers(1, 50))
def test_frames_survive_a_stream_that_is_cut_anywhere(sent: list[Frame], cut: int) -> None:
    stream = b"".join(encode(Kind(f.kind), f.header, f.body) for f in sent)
    decoder = Decoder()
    received = [
        frame for at in range(0, len(stream), cut) for frame in decoder.feed(stream[at : at + cut])
    ]
    assert received == sent
