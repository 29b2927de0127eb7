"""What an entity resolution gives, in the plainest way: all pairs, one by one, and sets that are joined."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations

from omnigraph.spark.resolution.folding import fold


def jaro_winkler(one: str, two: str) -> float:
    """The published definition: equal characters in reach of each other, those out of order, and a common beginning."""
    reach = max(0, max(len(one), len(two)) // 2 - 1)
    taken = [False] * len(two)
    ones, places = [], []
    for at, character in enumerate(one):
        for other in range(max(0, at - reach), min(len(two), at + reach + 1)):
            if not taken[other] and two[other] == character:
                taken[other] = True
                ones.append(character)
                places.append(other)
                break
    if not ones:
        return 0.0
    twos = [two[other] for other in sorted(places)]
    swapped = sum(left != right for left, right in zip(ones, twos, strict=True)) // 2
    count = len(ones)
    jaro = (count / len(one) + count / len(two) + (count - swapped) / count) / 3
    prefix = 0
    while prefix < min(4, len(one), len(two)) and one[prefix] == two[prefix]:
        prefix += 1
    return jaro + prefix * 0.1 * (1 - jaro) if jaro > 0.7 else jaro


def similarity(comparison, one, two):
    """The similarity of two values, None if one is missing."""
    if one is None or two is None:
        return None
    match comparison.method:
        case "exact":
            return float(one == two)
        case "vector_distance":
            return _closeness(comparison, one, two)
    one, two = (fold(text) if comparison.folds else text for text in (one, two))
    if not one.strip() or not two.strip():
        return None
    match comparison.method:
        case "normalised":
            return float(one == two)
        case "jaro_winkler":
            return jaro_winkler(one, two)
        case "token_overlap":
            words = set(one.split()), set(two.split())
            return len(words[0] & words[1]) / len(words[0] | words[1])


def _closeness(comparison, one, two):
    if comparison.metric == "l2":
        distance = sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) ** 0.5
    else:
        lengths = [sum(a * a for a in vector) ** 0.5 for vector in (one, two)]
        if not all(lengths):
            return None
        distance = 1 - sum(a * b for a, b in zip(one, two, strict=True)) / (lengths[0] * lengths[1])
    return min(1.0, max(0.0, 1 - distance / comparison.reach))


def score(resolution, one, two):
    """The similarities of two records, and their mean, None if there is none."""
    found = [similarity(each, one[each.column], two[each.column]) for each in resolution.comparisons]
    total = weights = 0.0
    for each, value in zip(resolution.comparisons, found, strict=True):
        used = each.missing if value is None else value
        if used is not None:
            total, weights = total + each.weight * used, weights + each.weight
    return found, total / weights if weights else None


@dataclass
class Model:
    """What comes out; pairs are keys of ``evidence``, with decision, score and whether they are joined."""

    members: dict
    evidence: dict
    retired: dict
    ended: set
    skipped: dict
    compared: int


def resolve_model(records, resolution, blocks_of, previous=None, overrules=()):
    """Resolve records, dictionaries by id; ``blocks_of`` returns the blocks of one."""
    blocks = {key: set(blocks_of(record)) for key, record in records.items()}
    sizes = Counter(block for some in blocks.values() for block in some)
    skipped = {block: size for block, size in sizes.items() if size > resolution.max_block_rows}
    verdicts = {tuple(sorted(pair)): verdict for *pair, verdict in overrules}
    evidence, compared = {}, 0
    for pair in combinations(sorted(records), 2):
        is_compared = bool((blocks[pair[0]] & blocks[pair[1]]) - skipped.keys())
        compared += is_compared
        total = score(resolution, records[pair[0]], records[pair[1]])[1] if is_compared else None
        total = None if total is None or total < resolution.floor else total
        if pair in verdicts:
            evidence[pair] = (f"{verdicts[pair]} by overrule", total)
        elif total is not None:
            evidence[pair] = ("same" if total >= resolution.threshold else "review", total)
    clusters = clusters_of(records, evidence)
    names, retired = _names(clusters, previous or {})
    members = {key: name for cluster, name in zip(clusters, names, strict=True) for key in cluster}
    shown = {}
    for (left, right), (decision, total) in evidence.items():
        is_joined = members[left] == members[right]
        word = "cut by overrule" if decision == "same" and not is_joined else decision
        shown[left, right] = (word, total, is_joined)
    ended = {(key, name) for key, name in (previous or {}).items() if members.get(key) != name}
    return Model(members, shown, retired, ended, skipped, compared)


def clusters_of(records, evidence):
    """Join from the strongest link down, unless that brings together what is decided to be different."""
    cluster = {key: frozenset([key]) for key in records}
    apart = [pair for pair, (decision, _) in evidence.items() if decision == "different by overrule"]
    order = {"same by overrule": 0, "same": 1}
    links = [(order[word], -(total or 0), pair) for pair, (word, total) in evidence.items() if word in order]
    for is_scored, negative, (left, right) in sorted(
        (rank, 0 if rank == 0 else negative, pair) for rank, negative, pair in links
    ):
        joined = cluster[left] | cluster[right]
        if not any(one in joined and two in joined for one, two in apart):
            for key in joined:
                cluster[key] = joined
        else:
            assert is_scored, (negative, left, right)
    return sorted(set(cluster.values()), key=min)


def _names(clusters, previous):
    held = defaultdict(set)
    for key, name in previous.items():
        held[name].add(key)
    claims, into = defaultdict(list), {}
    for name, keys in held.items():
        shares = [
            (name not in keys & cluster, -len(keys & cluster), min(keys & cluster), at)
            for at, cluster in enumerate(clusters)
            if keys & cluster
        ]
        into[name] = min(shares)[3] if shares else None
        if shares:
            claims[into[name]].append(name)
    names = [min(claims[at]) if claims[at] else None for at in range(len(clusters))]
    taken, number = set(held), 1
    while None in names:
        tried = {
            at: min(clusters[at]) + (f"~{number}" if number > 1 else "")
            for at, name in enumerate(names)
            if name is None
        }
        for at, name in tried.items():
            if name not in taken:
                names[at] = name
        taken |= {name for name in names if name is not None}
        number += 1
    retired = {name: None if at is None else names[at] for name, at in into.items() if at is None or names[at] != name}
    return names, retired
