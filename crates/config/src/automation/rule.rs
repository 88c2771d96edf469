//! Computes when a schedule is due.
//!
//! ```text
//! next(after)            the first instant after `after`
//! newest(after, until)   the last instant of (after, until]: older missed ones count once
//! ```
//!
//! A cron expression is evaluated in the local time of its zone. A time inside a gap, when clocks
//! are put forward, is the first instant after the gap. Of a time that occurs twice, the first
//! occurrence counts. An expression of every hour (`*`) follows the clocks instead: both occurrences
//! count, and a time inside a gap does not.

use std::fmt;
use std::sync::Arc;

use jiff::tz::TimeZone;
use unisono_context::Timestamp;

use super::cron::Cron;

const HOUR_MS: i64 = 3_600_000;
/// The growing periods before an instant that are searched for the newest time.
const SPANS_MS: [i64; 4] = [HOUR_MS, 24 * HOUR_MS, 31 * 24 * HOUR_MS, 366 * 24 * HOUR_MS];

/// The times of a schedule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The times.
    pub when: DueTimes,
    /// The time zone of the times.
    pub zone: TimeZone,
}

/// Times that come again.
#[derive(Clone, Debug)]
pub enum DueTimes {
    /// The times of a cron expression.
    Cron(Arc<Cron>),
    /// Multiples of this number of milliseconds since 1970-01-01T00:00Z, so that all processes
    /// compute the same times.
    Every(i64),
}

impl Rule {
    /// The first instant after `after`; none if there is none.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.when {
            DueTimes::Cron(cron) => cron.next(after, &self.zone),
            DueTimes::Every(ms) => {
                let next = after.0.div_euclid(*ms).checked_add(1)?.checked_mul(*ms)?;
                Some(Timestamp(next))
            }
        }
    }

    /// The last instant after `after` and not after `until`; none if there is none.
    pub fn newest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if after >= until {
            return None;
        }
        match &self.when {
            DueTimes::Every(ms) => {
                let newest = Timestamp(until.0.div_euclid(*ms) * ms);
                (newest > after).then_some(newest)
            }
            DueTimes::Cron(_) => {
                let starts = SPANS_MS.iter().map(|span| until.plus_ms(-span));
                let mut starts = starts.filter(|start| *start > after).chain([after]);
                let first = starts.find_map(|start| self.next(start).filter(|at| *at <= until))?;
                let each = std::iter::successors(Some(first), |at| {
                    self.next(*at).filter(|next| *next <= until)
                });
                each.last()
            }
        }
    }
}

/// The text of the rule as a person wrote it. It identifies the rule.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.when {
            DueTimes::Cron(cron) => {
                let zone = self.zone.iana_name().unwrap_or("UTC");
                write!(f, "{} {zone}", cron.text())
            }
            DueTimes::Every(ms) => match ms % HOUR_MS {
                0 => write!(f, "every {}h", ms / HOUR_MS),
                _ if ms % 60_000 == 0 => write!(f, "every {}m", ms / 60_000),
                _ if ms % 1_000 == 0 => write!(f, "every {}s", ms / 1_000),
                _ => write!(f, "every {ms}ms"),
            },
        }
    }
}

#[cfg(feature = "cron")]
#[cfg(test)]
mod tests {
    //! Instants come from arguments: nothing here waits.

    use super::*;
    use crate::automation::cron::zone;

    fn at(text: &str) -> Timestamp {
        let at: jiff::Timestamp = text.parse().expect(text);
        Timestamp(at.as_millisecond())
    }

    fn text(at: Timestamp) -> String {
        let at = jiff::Timestamp::from_millisecond(at.0).unwrap();
        at.to_string()
    }

    fn cron(expression: &str, name: &str) -> Rule {
        Rule {
            when: DueTimes::Cron(Arc::new(Cron::parse(expression).expect(expression))),
            zone: zone(name).expect(name),
        }
    }

    fn every(ms: i64) -> Rule {
        Rule {
            when: DueTimes::Every(ms),
            zone: TimeZone::UTC,
        }
    }

    /// The instants after that one, up to as many as are expected.
    fn assert_next(rule: &Rule, after: &str, expected: &[&str]) {
        let first = rule.next(at(after));
        let all = std::iter::successors(first, |at| rule.next(*at));
        let all: Vec<String> = all.take(expected.len()).map(text).collect();
        assert_eq!(all, expected, "{rule} after {after}");
    }

    #[test]
    fn times_come_on_the_clocks_of_their_zone() {
        let table: [(&str, &str, &str, &[&str]); 12] = rows! {
            // Friday, then Monday.
            ("0 7 * * 1-5", "UTC", "2026-01-01T12:00:00Z",
             &["2026-01-02T07:00:00Z", "2026-01-05T07:00:00Z"]),
            // Exactly then is not after.
            ("0 7 * * *", "UTC", "2026-01-01T07:00:00Z", &["2026-01-02T07:00:00Z"]),
            ("0 7 * * *", "UTC", "2026-01-01T06:59:59.999Z", &["2026-01-01T07:00:00Z"]),
            ("30 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", &["2026-01-01T04:00:00Z"]),
            // Leap days.
            ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z",
             &["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
            ("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00Z"]),
            // The last day of a month.
            ("0 0 L * *", "UTC", "2027-02-01T00:00:00Z",
             &["2027-02-28T00:00:00Z", "2027-03-31T00:00:00Z"]),
            ("0 0 L * *", "UTC", "2026-11-30T00:00:00Z",
             &["2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"]),
            ("0 7 1,L 12 *", "UTC", "2026-12-01T08:00:00Z",
             &["2026-12-31T07:00:00Z", "2027-12-01T07:00:00Z", "2027-12-31T07:00:00Z"]),
            ("0 7 L 1-11 *", "UTC", "2026-11-30T08:00:00Z", &["2027-01-31T07:00:00Z"]),
            // The last Friday of a month.
            ("0 7 * * 5L", "UTC", "2026-11-28T00:00:00Z",
             &["2026-12-25T07:00:00Z", "2027-01-29T07:00:00Z"]),
            ("0 7 * DEC 5L", "UTC", "2026-12-26T00:00:00Z", &["2027-12-31T07:00:00Z"]),
        };
        for (expression, zone, after, expected) in table {
            assert_next(&cron(expression, zone), after, expected);
        }
    }

    #[test]
    fn a_time_that_the_clocks_leave_out_is_the_first_instant_after() {
        // In Berlin 2026-03-29T02:00 is followed by 03:00 (01:00Z).
        let daily = cron("30 2 * * *", "Europe/Berlin");
        let expected = [
            "2026-03-28T01:30:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-30T00:30:00Z",
        ];
        assert_next(&daily, "2026-03-27T12:00:00Z", &expected);
        // The gap begins at the time itself.
        let daily = cron("0 2 * * *", "Europe/Berlin");
        let expected = [
            "2026-03-28T01:00:00Z",
            "2026-03-29T01:00:00Z",
            "2026-03-30T00:00:00Z",
        ];
        assert_next(&daily, "2026-03-27T12:00:00Z", &expected);
        let yearly = cron("0 2 29 3 *", "Europe/Berlin");
        assert_next(&yearly, "2025-04-01T00:00:00Z", &expected[1..2]);
        // Several times inside a gap are one instant.
        let often = cron("*/20 2,3 29 3 *", "Europe/Berlin");
        let expected = [
            "2026-03-29T01:00:00Z",
            "2026-03-29T01:20:00Z",
            "2026-03-29T01:40:00Z",
        ];
        assert_next(&often, "2026-03-28T12:00:00Z", &expected);
        // Half an hour only, on Lord Howe.
        let daily = cron("15 2 4 10 *", "Australia/Lord_Howe");
        assert_next(&daily, "2026-10-01T00:00:00Z", &["2026-10-03T15:30:00Z"]);
    }

    #[test]
    fn a_time_that_the_clocks_show_twice_comes_once() {
        // In Berlin 2026-10-25T03:00 is followed by 02:00 (01:00Z).
        let daily = cron("30 2 * * *", "Europe/Berlin");
        let expected = [
            "2026-10-24T00:30:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-26T01:30:00Z",
        ];
        assert_next(&daily, "2026-10-23T12:00:00Z", &expected);
        // The same from a start between the two occurrences.
        assert_next(&daily, "2026-10-25T00:59:00Z", &expected[2..]);
        assert_next(&daily, "2026-10-25T01:15:00Z", &expected[2..]);
    }

    #[test]
    fn an_expression_of_every_hour_has_its_times_in_each_hour_that_passes() {
        let often = cron("*/20 * * * *", "Europe/Berlin");
        let back = [
            "2026-10-25T00:40:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:20:00Z",
            "2026-10-25T01:40:00Z",
            "2026-10-25T02:00:00Z",
        ];
        assert_next(&often, "2026-10-25T00:20:00Z", &back);
        let forward = ["2026-03-29T00:40:00Z", "2026-03-29T01:00:00Z"];
        assert_next(&often, "2026-03-29T00:30:00Z", &forward);
        // Half an hour only, on Lord Howe.
        let hourly = cron("0 * * * *", "Australia/Lord_Howe");
        let back = [
            "2026-04-04T14:00:00Z",
            "2026-04-04T15:30:00Z",
            "2026-04-04T16:30:00Z",
        ];
        assert_next(&hourly, "2026-04-04T13:30:00Z", &back);
        let leap_days = cron("0 * 29 2 *", "Europe/Berlin");
        let far = ["2028-02-28T23:00:00Z", "2028-02-29T00:00:00Z"];
        assert_next(&leap_days, "2026-01-01T00:00:00Z", &far);
    }

    #[test]
    fn times_with_a_period_are_the_same_for_every_process() {
        let hours = every(6 * HOUR_MS);
        let expected = ["2026-01-01T06:00:00Z", "2026-01-01T12:00:00Z"];
        assert_next(&hours, "2026-01-01T00:00:00Z", &expected);
        assert_next(&hours, "2026-01-01T05:59:59.999Z", &expected);
        assert_next(
            &every(1_000),
            "1969-12-31T23:59:59.5Z",
            &["1970-01-01T00:00:00Z"],
        );
        assert_eq!(every(1).next(Timestamp(i64::MAX)), None);
    }

    #[test]
    fn of_those_that_were_missed_the_newest_is_found() {
        let table = rows! {
            (cron("0 7 * * *", "UTC"), "2026-01-01T07:00:00Z", "2026-01-02T06:59:59Z", None),
            (cron("0 7 * * *", "UTC"), "2026-01-01T07:00:00Z", "2026-01-02T07:00:00Z",
             Some("2026-01-02T07:00:00Z")),
            (cron("* * * * *", "UTC"), "2000-01-01T00:00:00Z", "2026-01-02T07:00:30Z",
             Some("2026-01-02T07:00:00Z")),
            (cron("0 0 29 2 *", "UTC"), "2000-01-01T00:00:00Z", "2026-01-01T00:00:00Z",
             Some("2024-02-29T00:00:00Z")),
            (cron("30 2 * * *", "Europe/Berlin"), "2026-03-28T12:00:00Z", "2026-03-29T02:00:00Z",
             Some("2026-03-29T01:00:00Z")),
            (every(6 * HOUR_MS), "2000-01-01T00:00:00Z", "2026-01-01T11:59:00Z",
             Some("2026-01-01T06:00:00Z")),
            (every(6 * HOUR_MS), "2026-01-01T06:00:00Z", "2026-01-01T11:59:00Z", None),
            // A clock that was set back.
            (every(1_000), "2026-01-01T06:00:00Z", "2025-01-01T00:00:00Z", None),
        };
        for (rule, after, until, expected) in table {
            let found = rule.newest(at(after), at(until)).map(text);
            assert_eq!(found.as_deref(), expected, "{rule}: {after} to {until}");
        }
    }

    #[test]
    fn a_rule_is_known_by_what_was_written() {
        let berlin = cron(" 0  7 * * 1-5", "Europe/Berlin");
        assert_eq!(berlin.to_string(), "0 7 * * 1-5 Europe/Berlin");
        assert_eq!(cron("0 7 * * *", "UTC").to_string(), "0 7 * * * UTC");
        for (ms, expected) in [
            (21_600_000, "6h"),
            (90_000, "90s"),
            (60_000, "1m"),
            (1_500, "1500ms"),
        ] {
            assert_eq!(every(ms).to_string(), format!("every {expected}"));
        }
    }
}
