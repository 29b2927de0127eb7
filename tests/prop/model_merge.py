"""Three-way merge as a page of dictionaries: what the engine's merge must agree with."""

from __future__ import annotations

INSERT, UPDATE, DELETE = "divergent_insert", "divergent_update", "delete_vs_update"


def merge_values(base, source, target):
    """Merge rows by id; return what the target becomes and the kind of conflict by id."""
    merged, conflicts = dict(target), {}
    for entity_id in {*base, *source, *target}:
        old, theirs, ours = base.get(entity_id), source.get(entity_id), target.get(entity_id)
        if theirs in (old, ours):
            continue
        if ours == old:
            if theirs is None:
                del merged[entity_id]
            else:
                merged[entity_id] = theirs
        else:
            conflicts[entity_id] = INSERT if old is None else DELETE if theirs is None or ours is None else UPDATE
    return merged, conflicts


def combine_values(base, source, target, conflicts):
    """Return what each update that conflicts becomes property by property; those that cannot are left out."""
    combined = {}
    for entity_id, kind in conflicts.items():
        if kind != UPDATE:
            continue
        old, theirs, ours = base[entity_id], source[entity_id], target[entity_id]
        row = []
        for before, source_value, target_value in zip(old, theirs, ours, strict=True):
            if source_value in (before, target_value):
                row.append(target_value)
            elif target_value == before:
                row.append(source_value)
            else:
                break
        else:
            combined[entity_id] = tuple(row)
    return combined


def take_source(merged, source, conflicts):
    """Return the merge with every conflict decided as the source has it."""
    decided = {entity_id: row for entity_id, row in merged.items() if entity_id not in conflicts}
    return decided | {entity_id: source[entity_id] for entity_id in conflicts if entity_id in source}
