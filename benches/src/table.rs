//! The rows that README.md quotes.
#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::time::Duration;

/// A markdown table on standard output, written row by row.
#[derive(Debug)]
pub struct Table(());

impl Table {
    /// Starts the table of one benchmark.
    pub fn new(bench: &str, about: &str) -> Table {
        println!("\n### {bench}\n");
        println!("> {about}\n");
        println!("| what | target | result | ratio | met |");
        println!("|---|---|---|---|---|");
        Table(())
    }

    /// A figure with a target.
    pub fn row(&self, what: &str, target: &str, result: &str, ratio: Option<f64>, met: bool) {
        let met = if met { "yes" } else { "**no**" };
        self.line(what, target, result, ratio, met);
    }

    /// A figure without one.
    pub fn note(&self, what: &str, result: &str, ratio: Option<f64>) {
        self.line(what, "", result, ratio, "");
    }

    fn line(&self, what: &str, target: &str, result: &str, ratio: Option<f64>, met: &str) {
        let ratio = ratio.map_or_else(String::new, |ratio| match ratio {
            r if r >= 100.0 => format!("{r:.0} ×"),
            r if r >= 0.1 => format!("{r:.2} ×"),
            r => format!("{r:.5} ×"),
        });
        println!("| {what} | {target} | {result} | {ratio} | {met} |");
    }
}

/// A duration as a person reads it.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.2} µs", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}

/// An amount of memory as a person reads it.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        b if b.abs() >= 1048576.0 => format!("{:.1} MiB", b / 1048576.0),
        b if b.abs() >= 1024.0 => format!("{:.1} KiB", b / 1024.0),
        b => format!("{b:.0} B"),
    }
}
