"""ALBERT 3.1, cross-layer parameter sharing: for every depth, which attention and which feed-forward weights it uses.

Everything from "all" (ALBERT) to "none" (BERT) is the same map. ALBERT's own configs have numbers for some of them,
`num_hidden_groups` and `inner_group_num`, which are led there and back.
"""

import re

from litebert.config import require


def sharing_map(sharing: str, num_layers: int) -> tuple[tuple[int, int], ...]:
    """For every depth, the index of its attention and of its feed-forward weights.

    Layer normalisations go with the pair: each distinct pair has its own, so they are shared where both halves are.
    """
    depths = range(num_layers)
    named = {
        "all": ((0, 0) for _ in depths),
        "none": ((depth, depth) for depth in depths),
        "attention": ((0, depth) for depth in depths),
        "ffn": ((depth, 0) for depth in depths),
        # The first and the last layer have weights of their own, those between share one block.
        "sandwich": ((block, block) for block in ([0, *[1] * (num_layers - 2), 2] if num_layers > 2 else depths)),
    }
    if sharing in named:
        return tuple(named[sharing])
    if match := re.fullmatch(r"(groups|cycle)=(\d+)", sharing):
        size = int(match[2])
        require(1 <= size <= num_layers, f"sharing is {sharing!r}; M must be from 1 to num_layers, {num_layers}")
        blocks = (depth // size if match[1] == "groups" else depth % size for depth in depths)
        return tuple((block, block) for block in blocks)
    require(
        re.fullmatch(r"\d+(:\d+)?(,\d+(:\d+)?)*", sharing),
        f"sharing is {sharing!r}; it must be {', '.join(named)}, groups=M, cycle=M, "
        "or a list of block indices such as 0,1,1,0 or 0:0,0:1 (attention:ffn)",
    )
    return parse_sharing_list(sharing, num_layers)


def parse_sharing_list(sharing: str, num_layers: int) -> tuple[tuple[int, int], ...]:
    """`0,1,1` or `0:0,0:1,0:2`, an entry per depth -> pairs of indices that count up from 0 without gaps."""
    entries = [entry.split(":") for entry in sharing.split(",")]
    pairs = tuple((int(entry[0]), int(entry[-1])) for entry in entries)
    require(len(pairs) == num_layers, f"sharing is {sharing!r}, {len(pairs)} entries; num_layers is {num_layers}")
    for half in zip(*pairs, strict=True):
        require(
            set(half) == set(range(max(half) + 1)),
            f"sharing is {sharing!r}; its indices must count up from 0 without gaps",
        )
    return pairs


def find_groups(sharing: str, num_layers: int) -> tuple[int, int] | None:
    """ALBERT's `num_hidden_groups` and `inner_group_num` for a sharing map, or None if it has no such form.

    Its layers are num_layers / inner; layer l runs the inner blocks of group int(l * groups / layers), one by one.
    """
    pairs = sharing_map(sharing, num_layers)
    for inner in (n for n in range(1, num_layers + 1) if num_layers % n == 0):
        for groups in range(1, num_layers // inner + 1):
            if pairs == expand_groups(num_layers // inner, groups, inner):
                return groups, inner
    return None


def expand_groups(num_hidden_layers: int, num_hidden_groups: int, inner_group_num: int) -> tuple[tuple[int, int], ...]:
    """The sharing map that ALBERT's three numbers stand for."""
    groups = [int(layer / (num_hidden_layers / num_hidden_groups)) for layer in range(num_hidden_layers)]
    blocks = [group * inner_group_num + inner for group in groups for inner in range(inner_group_num)]
    return tuple((block, block) for block in blocks)


def name_sharing(num_hidden_layers: int, num_hidden_groups: int, inner_group_num: int) -> str:
    """The plainest name of the sharing that ALBERT's three numbers stand for."""
    require(
        1 <= num_hidden_groups <= num_hidden_layers and inner_group_num >= 1,
        f"config.json says num_hidden_groups {num_hidden_groups} and inner_group_num {inner_group_num} "
        f"for {num_hidden_layers} layers; groups must be from 1 to the number of layers",
    )
    pairs = expand_groups(num_hidden_layers, num_hidden_groups, inner_group_num)
    named = ["all", "none", *(f"{name}={size}" for name in ("groups", "cycle") for size in range(2, len(pairs)))]
    written_out = ",".join(str(block) for block, _ in pairs)
    return next((name for name in named if sharing_map(name, len(pairs)) == pairs), written_out)
