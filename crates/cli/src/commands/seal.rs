//! `unisono seal`.

use unisono_api::session::MAIN_BRANCH;
use unisono_api::topic::Topic;

use crate::app::App;
use crate::problem::Result;
use crate::service::{find_session, spoken_length};
use crate::show;

const HELP: &str = "\
The next message starts another topic. With `--preset tiered`, ended topics are summarised one by
one if they exceed their share; other presets ignore topics.

Examples:
  unisono seal latest
  unisono seal latest --branch what-if

JSON: the topic, as in `context`: first, last, messages, title and the others.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The session
    session: String,
    /// The branch
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let service = app.changer().await?;
    let session = find_session(&*service, &args.session).await?.session;
    spoken_length(&*service, &session, &args.branch).await?;
    let topic = service.seal(&session, &args.branch).await;
    service.close().await;
    report(app, &topic?);
    Ok(())
}

pub(super) fn report(app: &App, topic: &Topic) {
    let (first, last) = (topic.first, topic.last);
    let many = show::many(u64::from(topic.messages), "message");
    let message = format!("sealed the topic of #{first}–#{last} ({many})");
    app.out.outcome(topic, message);
}
