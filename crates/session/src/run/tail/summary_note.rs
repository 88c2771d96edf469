//! The summary of a run's first steps in the form of the prompt.

/// The ends of sentences in quotes: a number after one of them begins a quote.
const ENDS: [char; 14] = [
    '.', '!', '?', '…', '。', '！', '？', '”', '"', '`', ')', ']', '}', ';',
];

/// A summary of a run's first rounds in the form of the prompt. It quotes them as `#3`; the prompt
/// says `step 3`, because `#3` is a message of the conversation there.
pub fn summary_note(summary: &str) -> String {
    format!(
        "Your first replies and what your tools answered are left out; this is their summary. \
         Step 1 is your first reply here, with its calls and results; steps are no messages of \
         the conversation.\n\n{}",
        with_steps(summary)
    )
}

/// The text with `step 3` in place of a `#3` that begins a quote: after `- ` and the speaker, or
/// after a sentence. Such numbers within quotes have a backslash before them.
fn with_steps(summary: &str) -> String {
    let mut out = String::with_capacity(summary.len());
    let mut rest = summary;
    while let Some((before, after)) = rest.split_once('#') {
        out.push_str(before);
        let line = out.rsplit('\n').next().unwrap_or_default();
        let begins_item = line.strip_prefix("- ").is_some_and(|speaker| {
            speaker.is_empty() || speaker.find(' ') == Some(speaker.len() - 1)
        });
        let follows = line.ends_with(' ') && line.trim_end().ends_with(ENDS);
        let is_number = after.starts_with(|c: char| c.is_ascii_digit());
        out.push_str(match is_number && (begins_item || follows) {
            true => "step ",
            false => "#",
        });
        rest = after;
    }
    out.push_str(rest);
    out
}
