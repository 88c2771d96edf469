"""What a description cannot say of a request that the daemon takes."""

import schemathesis


@schemathesis.hook
def map_query(ctx, query):
    """A cursor is what a list gave: nobody can make one up."""
    if query:
        query.pop("cursor", None)
    return query


@schemathesis.hook
def map_headers(ctx, headers):
    """An event that a client had last has happened."""
    if headers:
        headers.pop("Last-Event-ID", None)
    return headers


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
