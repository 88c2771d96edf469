//! Smaller requests after rejected ones.

use super::*;

#[test]
fn a_rejected_request_is_sent_again_smaller() {
    let refused = |input, exchange, output, calls| RefusedRequest {
        input: Tokens(input),
        exchange: Tokens(exchange),
        output: Tokens(output),
        calls,
    };
    // A request, the limit, the headroom before; the headroom after, and the maximum reply.
    let rows = rows! {
        // A window of 8k that was assumed to be 128k: the reply gets the rest.
        (refused(700, 0, 8_192, false), Some(8_192), 119_000, 7_492, Some(7_492)),
        (refused(700, 0, 8_192, true), Some(8_192), 119_000, 5_619, Some(1_873)),
        (refused(1_700, 1_000, 8_192, true), Some(8_192), 119_000, 5_869, Some(1_623)),
        // The input alone is too large: the exchange shrinks.
        (refused(9_000, 4_000, 8_192, true), Some(8_192), 119_000, 2_394, Some(798)),
        (refused(9_000, 0, 8_192, false), Some(8_192), 119_000, 0, None),
        (refused(9_000, 1_000, 100, false), Some(8_192), 119_000, 144, Some(48)),
        // It fits according to the counts: they are too low.
        (refused(5_000, 2_000, 1_000, true), Some(8_192), 9_000, 1_500, None),
        (refused(5_000, 0, 1_000, true), Some(8_192), 900, 900, Some(250)),
        // Only the rejection is known.
        (refused(5_000, 2_000, 1_000, true), None, 9_000, 1_500, None),
        (refused(5_000, 2_000, 1_000, true), None, 900, 900, None),
        (refused(5_000, 0, 1_000, true), None, 900, 0, None),
    };
    for (request, limit, room, expected, output) in rows {
        let narrower = request.narrowed_limits(limit.map(Tokens), Tokens(room));
        let expected = NarrowedLimits {
            room: Tokens(expected),
            output: output.map(Tokens),
        };
        assert_eq!(narrower, expected, "{request:?} {limit:?}");
    }
}
