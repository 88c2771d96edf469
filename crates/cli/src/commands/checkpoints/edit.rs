//! `unisono checkpoints edit`: a person's text in place of a summary's.

use std::fs;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use unisono_api::compaction::EditSummary;
use unisono_api::turn::TurnRequest;
use unisono_model::redact::redact;
use unisono_store::private;

use crate::app::App;
use crate::commands::compact::{follow_each, report, report_unchanged};
use crate::conversation;
use crate::live::Interrupts;
use crate::problem::{Problem, Result};
use crate::show;

use super::active::ActiveCheckpoint;

const HELP: &str = "\
The text may have at most the tokens of a summary of the preset (default: 2,048), and the context
must stay within its target. The old summary is kept, and `checkpoints revert` brings it back. Key
facts do not change. Later summaries begin with the text.

Examples:
  unisono checkpoints edit latest                    in $VISUAL or $EDITOR
  unisono checkpoints edit latest 3 --text better.md
  unisono checkpoints show latest 3 --summary | sed s/MySQL/MariaDB/ \\
      | unisono checkpoints edit latest 3 --text -

JSON: as for `compact`.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    active: ActiveCheckpoint,
    /// A file with the new text, or `-` for standard input; without it, an editor is opened
    #[arg(long, value_name = "FILE")]
    text: Option<String>,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let idle_store = app.idle_store(&setup).await?;
    let (session, detail) = args.active.find(idle_store.service()).await?;
    let old = detail.checkpoint.text.as_deref().unwrap_or_default();
    let given = args.text.as_deref().map(read).transpose()?;
    // An editor gets the signals of its terminal, and this program waits for its end.
    let mut interrupts = Interrupts::listen_patiently()?;
    let draft = match given {
        Some(text) => Draft { text, file: None },
        None => written(app, old)?,
    };
    let text = redact(draft.text.trim()).into_owned();
    if text == old.trim() {
        draft.remove_file();
        let tokens = detail.revert.as_ref().map(|effect| effect.tokens_before);
        report_unchanged(app, &session, tokens, "the text is the same");
        idle_store.close().await;
        return Ok(());
    }
    let asked = TurnRequest::Edit {
        checkpoint: detail.checkpoint.number.to_string(),
        new: EditSummary {
            text,
            branch: args.active.branch.clone(),
            wait: false,
        },
    };
    let at = (session.as_str(), args.active.branch.as_str());
    let done = follow_each(app, idle_store, at, &asked, &mut interrupts, false).await;
    let done = done.and_then(|(watch, end)| report(app, &watch, end));
    match done {
        Ok(()) => draft.remove_file(),
        Err(_) => draft.report_file(app),
    }
    done
}

/// A new text, and the file in which an editor left it.
struct Draft {
    text: String,
    file: Option<PathBuf>,
}

impl Draft {
    fn remove_file(&self) {
        if let Some(file) = &self.file {
            // The text is in the store.
            let _ = fs::remove_file(file);
        }
    }

    fn report_file(&self, app: &App) {
        if let Some(file) = &self.file {
            let argument = show::argument(&file.to_string_lossy());
            app.out.warn(format_args!(
                "your text is in {}: --text {argument} hands it in again",
                file.display()
            ));
        }
    }
}

fn read(file: &str) -> Result<String> {
    let bytes = conversation::bytes_of(file, "a file with its text")?;
    String::from_utf8(bytes).map_err(|_| Problem::usage(format!("{file} is not UTF-8 text")))
}

/// The text as it comes back from a person's editor.
fn written(app: &App, old: &str) -> Result<Draft> {
    if !std::io::stdin().is_terminal() || !app.out.watched {
        let problem = Problem::usage("there is no terminal for an editor");
        return Err(problem.hint("hand the text in with --text FILE, or --text -"));
    }
    let set = |name| {
        std::env::var(name)
            .ok()
            .filter(|value| !value.trim().is_empty())
    };
    let editor = set("VISUAL")
        .or_else(|| set("EDITOR"))
        .unwrap_or_else(|| "vi".to_owned());
    let file = std::env::temp_dir().join(format!(
        "unisono-{:032x}.md",
        unisono_runtime::clock::new_id()
    ));
    let failed = |what: &str, error: std::io::Error| {
        Problem::failed(format!("{what} {}: {error}", file.display()))
    };
    let written = private::create_new(&file).and_then(|mut new| new.write_all(old.as_bytes()));
    written.map_err(|error| failed("cannot write", error))?;
    if let Err(problem) = run_editor(&editor, &file) {
        let _ = fs::remove_file(&file);
        return Err(problem);
    }
    let text = fs::read_to_string(&file).map_err(|error| failed("cannot read", error))?;
    Ok(Draft {
        text,
        file: Some(file),
    })
}

/// Edits a file. A shell reads the command, which may have quoted arguments.
fn run_editor(editor: &str, file: &Path) -> Result<()> {
    let command = format!("{editor} \"$@\"");
    let shell = ["-c", command.as_str(), "sh"];
    let problem = match Command::new("sh").args(shell).arg(file).status() {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) if !matches!(status.code(), Some(126 | 127)) => {
            let problem = format!("`{editor}` ended with {status}: nothing was changed");
            return Err(Problem::failed(problem));
        }
        Ok(_) => Problem::failed(format!("`{editor}` cannot be started")),
        Err(error) => Problem::failed(format!("`{editor}` cannot be started: {error}")),
    };
    Err(problem.hint("set $EDITOR, or hand the text in with --text FILE"))
}
