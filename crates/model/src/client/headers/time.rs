//! Waits as headers write them: seconds, durations with units, and times.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::TimeZone;

/// A longer wait is this one, in seconds: a year.
const LONGEST: f64 = 31_536_000.0;
/// A number of seconds from this one on is a time since 1970, not a wait. From a thousand times this
/// number on, it is in milliseconds.
const SINCE_1970: i64 = 1_000_000_000;

/// A wait: seconds (`1`, `0.5`), a duration (`6m0s`, `12ms`), or a time: as in HTTP or RFC 3339, or
/// in seconds or milliseconds since 1970. A past time is no wait.
pub(super) fn wait(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    since_1970(value)
        .map(|time| until(time, now))
        .or_else(|| seconds(value))
        .or_else(|| units(value))
        .or_else(|| time_of_day(value).map(|time| until(time, now)))
}

pub(super) fn milliseconds(value: &str) -> Option<Duration> {
    seconds(value.trim()).map(|wait| wait / 1000)
}

/// A time in one of the three forms of RFC 9110, section 5.6.7.
pub(super) fn http_date(value: &str) -> Option<Timestamp> {
    let value = value.trim();
    if let Ok(time) = rfc2822::DateTimeParser::new().parse_timestamp(value) {
        return Some(time);
    }
    let obsolete = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    obsolete.into_iter().find_map(|format| {
        let time: DateTime = strtime::parse(format, value).ok()?.to_datetime().ok()?;
        Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

fn since_1970(value: &str) -> Option<Timestamp> {
    let number: i64 = value.parse().ok()?;
    match number {
        ..SINCE_1970 => None,
        SINCE_1970..1_000_000_000_000 => Timestamp::from_second(number).ok(),
        _ => Timestamp::from_millisecond(number).ok(),
    }
}

fn time_of_day(value: &str) -> Option<Timestamp> {
    value.parse().ok().or_else(|| http_date(value))
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

fn seconds(value: &str) -> Option<Duration> {
    let plain = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = value.parse::<f64>().ok().filter(|_| plain)?;
    Some(Duration::from_secs_f64(seconds.min(LONGEST)))
}

/// A sequence of numbers with units: `1h2m3.5s`, `12ms`.
fn units(mut value: &str) -> Option<Duration> {
    let mut sum = 0.0;
    if value.is_empty() {
        return None;
    }
    while !value.is_empty() {
        let end = value.find(|char: char| char.is_ascii_alphabetic())?;
        let (number, rest) = value.split_at(end);
        let end = rest
            .find(|char: char| !char.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        let unit = match unit {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        sum += seconds(number)?.as_secs_f64() * unit;
        value = rest;
    }
    Duration::try_from_secs_f64(sum).ok()
}
