"""Which depth uses which weights."""

import pytest

from litebert.models.sharing import sharing_map


@pytest.mark.parametrize(
    ("sharing", "num_layers", "pairs"),
    [
        ("all", 3, [(0, 0), (0, 0), (0, 0)]),
        ("none", 3, [(0, 0), (1, 1), (2, 2)]),
        ("attention", 3, [(0, 0), (0, 1), (0, 2)]),
        ("ffn", 3, [(0, 0), (1, 0), (2, 0)]),
        ("groups=2", 5, [(0, 0), (0, 0), (1, 1), (1, 1), (2, 2)]),
        ("cycle=2", 5, [(0, 0), (1, 1), (0, 0), (1, 1), (0, 0)]),
        ("sandwich", 5, [(0, 0), (1, 1), (1, 1), (1, 1), (2, 2)]),
        ("sandwich", 1, [(0, 0)]),
        ("sandwich", 2, [(0, 0), (1, 1)]),
        ("0,1,1,0", 4, [(0, 0), (1, 1), (1, 1), (0, 0)]),
        ("0:0,0:1,1:0", 3, [(0, 0), (0, 1), (1, 0)]),
    ],
)
def test_sharing_is_a_map_from_depth_to_weights(sharing: str, num_layers: int, pairs: list[tuple[int, int]]) -> None:
    assert list(sharing_map(sharing, num_layers)) == pairs
