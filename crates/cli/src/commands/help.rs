//! Formats the help texts below the flags: their line breaks in the source are removed, so that
//! each paragraph fills the terminal.

use clap::{Command, CommandFactory, FromArgMatches};

use crate::caller::Verb;

use super::Cli;

/// The beginnings of lines that are not part of a paragraph.
const BEGINS: [&str; 2] = ["JSON:", "Exit codes:"];

/// The command line with its texts.
pub(crate) fn command() -> Command {
    flowing(Cli::command())
}

/// Parses the command line of this process, and names its verb.
///
/// # Errors
/// It is wrong, or requests help.
pub(crate) fn parse() -> Result<(Cli, Verb), clap::Error> {
    let mut matches = command().try_get_matches()?;
    let verb = Verb::from_matches(&matches);
    let cli = Cli::from_arg_matches_mut(&mut matches);
    let mut cli = cli.map_err(|error| error.format(&mut command()))?;
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    cli.global.set_from(&words);
    Ok((cli, verb))
}

fn flowing(command: Command) -> Command {
    let below = command.get_after_help().map(ToString::to_string);
    let command = match below {
        Some(text) => command.after_help(paragraphs(&text)),
        None => command,
    };
    command.mut_subcommands(flowing)
}

/// A text with each paragraph on one line. Indented lines are kept.
fn paragraphs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut goes_on = false;
    for line in text.lines() {
        let is_said = !line.is_empty() && !line.starts_with(' ');
        goes_on &= !begins(line);
        match out.is_empty() {
            true => {}
            false if goes_on && is_said => out.push(' '),
            false => out.push('\n'),
        }
        out.push_str(line);
        goes_on = is_said;
    }
    out
}

fn begins(line: &str) -> bool {
    BEGINS.iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(command: &Command, path: &str, check: &mut impl FnMut(&str, &Command)) {
        check(path, command);
        for below in command.get_subcommands() {
            each(below, &format!("{path} {}", below.get_name()), check);
        }
    }

    #[test]
    fn paragraphs_are_joined_and_lists_are_not() {
        let text = "One line\nand more.\nJSON: a,\nb\n\nExamples:\n  first\n  second\nLast\nwords.";
        let flown = "One line and more.\nJSON: a, b\n\nExamples:\n  first\n  second\nLast words.";
        assert_eq!(paragraphs(text), flown);
        assert_eq!(paragraphs(flown), flown);
    }

    #[test]
    fn lines_that_are_copied_are_whole_on_a_narrow_terminal() {
        let mut looked = 0;
        each(&command(), "unisono", &mut |path, command| {
            let below = command.get_after_help().map(ToString::to_string);
            let below = below.unwrap_or_default();
            for line in below.lines().filter(|line| line.starts_with("  ")) {
                assert!(line.chars().count() <= 80, "{path}: {line}");
                looked += 1;
            }
        });
        assert!(looked > 50, "{looked} lines");
    }

    #[test]
    fn no_line_of_a_help_is_broken_early_or_too_long() {
        for width in [80, 100] {
            let mut root = command().term_width(width);
            root.build();
            let mut looked = 0;
            each(&root, "unisono", &mut |path, command| {
                let help = command.clone().term_width(width).render_long_help();
                let help = help.to_string();
                let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
                for (line, next) in lines.iter().zip(&lines[1..]) {
                    let length = line.chars().count();
                    // A usage and a word are not broken.
                    let is_whole = line.starts_with("Usage:") || !line.trim().contains(' ');
                    assert!(length <= width || is_whole, "{path} at {width}: {line}");
                    let said = |line: &str| !line.is_empty() && !line.starts_with(' ');
                    let word = next.split(' ').next().unwrap_or_default();
                    if said(line) && said(next) && !begins(next) {
                        let full = length + 1 + word.chars().count() > width;
                        assert!(full, "{path} at {width} breaks early: {line}\n{next}");
                        looked += 1;
                    }
                }
            });
            assert!(looked > 50, "{looked} lines");
        }
    }
}
