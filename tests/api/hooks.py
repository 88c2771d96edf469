"""What a description cannot say of a request that the daemon takes."""

import schemathesis


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """A cursor is what a list gave, and an event that a client had last has happened: nobody can
    make one up that is right."""
    if case.meta is None or case.meta.generation.mode.is_negative:
        return
    for held, name in ((case.query, "cursor"), (case.query, "after"), (case.headers, "Last-Event-ID")):
        if held and name in held:
            del held[name]
    # A whole number of JSON has no end; one of a query has 32 bits.
    for name in ("limit", "number"):
        if case.query and isinstance(case.query.get(name), int):
            case.query[name] = min(case.query[name], 2**32 - 1)


@schemathesis.hook
def map_body(ctx, body):
    """JSON writes no whole number as 5.0."""
    return whole(body)


def whole(value):
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    return value
