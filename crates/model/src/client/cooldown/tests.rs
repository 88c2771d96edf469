//! Tests of the shared cool-down: which requests wait, and how they start again.

use super::*;
use crate::fixture::ms;

#[test]
fn requests_during_the_cool_down_wait_and_are_spread() {
    let mut cool_down = CoolDown::default();
    assert_eq!(cool_down.wait(ms(0), 0.5), None, "nothing is held back yet");
    cool_down.hold(ms(1_000), ms(2_000));
    let table = [
        (1_000, 0.0, Some(2_000)),
        (1_000, 0.5, Some(2_250)),
        (2_500, 0.0, Some(500)),
        (2_999, 1.0, Some(501)),
        (3_000, 0.5, None),
        (9_000, 0.5, None),
    ];
    for (now, draw, expected) in table {
        assert_eq!(
            cool_down.wait(ms(now), draw),
            expected.map(ms),
            "at {now}, draw {draw}"
        );
    }
}

#[test]
fn the_longest_cool_down_applies() {
    let mut cool_down = CoolDown::default();
    cool_down.hold(ms(0), ms(10_000));
    cool_down.hold(ms(0), ms(1_000));
    assert_eq!(cool_down.wait(ms(0), 0.0), Some(ms(10_000)));
    cool_down.hold(ms(9_000), ms(4_000));
    assert_eq!(cool_down.wait(ms(9_000), 0.0), Some(ms(4_000)));
    cool_down.hold(ms(20_000), ms(0));
    assert_eq!(cool_down.wait(ms(20_000), 0.9), None);
}

#[test]
fn the_spread_is_limited() {
    let mut cool_down = CoolDown::default();
    cool_down.hold(ms(0), Duration::MAX);
    assert!(cool_down.wait(ms(0), 0.0).is_some());
    let mut cool_down = CoolDown::default();
    cool_down.hold(ms(0), ms(3_600_000));
    assert_eq!(cool_down.wait(ms(0), 1.0), Some(ms(3_605_000)));
}
