//! `unisono tokens`: the tokens of people and programs.

use clap::Subcommand;
use unisono_api::service::Service;
use unisono_api::token::{NewToken, Scope, Token};

use crate::app::App;
use crate::problem::Result;
use crate::service::all_pages;
use crate::show;

const CREATE_HELP: &str = "\
The secret is shown once, and the store has only its digest. Give it to the person or program that
uses it; requests send it as `Authorization: Bearer <secret>`. The scope `read` only reads; `ask` also
starts turns and creates, changes and deletes sessions; `approve` also decides about tool calls; `admin`
may do everything. With --owner, the token sees and creates only sessions with that label `owner`,
unless its scope is `admin`.

JSON: {name, scope, owner (null: none), created_at, expires_at (null: never), expired, secret}.";

const LIST_HELP: &str = "\
The list does not have the daemon's own token, which is in `server.token_file`.

JSON: a list of {name, scope, owner (null: none), created_at, expires_at (null: never), expired}.";

const REVOKE_HELP: &str = "\
The daemon refuses the token from now on, ends its event streams, breaks off its downloads, and logs
out browsers that used it. Other daemons on the same database follow within about a second. A new
token may have the name.

JSON: an item of `unisono tokens list`.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Creates a token and shows its secret once
    #[command(after_help = CREATE_HELP)]
    Create(Create),
    /// Lists the tokens that are not revoked
    #[command(after_help = LIST_HELP)]
    List,
    /// Revokes a token at once; this cannot be undone
    #[command(after_help = REVOKE_HELP)]
    Revoke(Revoke),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// The token's name, which identifies its user
    #[arg(value_name = "NAME")]
    token: String,
    /// Its rights: read, ask, approve or admin
    #[arg(long, default_value = "ask")]
    scope: Scope,
    /// The owner of the sessions that it sees and creates (default: it sees all sessions)
    #[arg(long)]
    owner: Option<String>,
    /// Its validity: 90d, 12h, 30m (default: until it is revoked)
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The token's name
    #[arg(value_name = "NAME")]
    token: String,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let service = match &command {
        // The first token may precede the first session, so this creates a missing store.
        Command::Create(_) => app.maker(&setup).await?,
        Command::List => app.reader_with(&setup).await?,
        Command::Revoke(_) => app.changer_with(&setup).await?,
    };
    let result = match command {
        Command::Create(args) => create(app, &*service, args).await,
        Command::List => list(app, &*service).await,
        Command::Revoke(args) => revoke(app, &*service, &args.token).await,
    };
    service.close().await;
    result
}

async fn create(app: &App, service: &dyn Service, args: Create) -> Result<()> {
    let new = NewToken {
        name: args.token,
        scope: args.scope,
        owner: args.owner,
        expires_seconds: args.expires,
    };
    let made = service.create_token(&new).await?;
    if app.out.json {
        app.out.json(&made);
    } else {
        app.out.data(&made.secret);
        app.out.message(format_args!(
            "token {} with the scope {} {}; its secret is not shown again",
            made.token.name,
            made.token.scope,
            until(&made.token)
        ));
    }
    Ok(())
}

async fn list(app: &App, service: &dyn Service) -> Result<()> {
    let tokens = all_pages(async |page| service.tokens(&page).await).await?;
    let header = ["TOKEN", "SCOPE", "OWNER", "CREATED (UTC)", "EXPIRES (UTC)"];
    let none = "the store has no tokens besides the daemon's own; `unisono tokens create NAME` \
                creates one";
    app.out.list(&tokens, none, (&header, &[]), row);
    Ok(())
}

async fn revoke(app: &App, service: &dyn Service, name: &str) -> Result<()> {
    let revoked = service.revoke_token(name).await?;
    let message = format!("token {} is revoked", revoked.name);
    app.out.outcome(&revoked, message);
    Ok(())
}

fn row(token: &Token) -> Vec<String> {
    let expires = match (&token.expires_at, token.expired) {
        (None, _) => "-".to_owned(),
        (Some(_), true) => "expired".to_owned(),
        (Some(at), false) => show::minute(at),
    };
    vec![
        token.name.clone(),
        token.scope.name().to_owned(),
        token.owner.clone().unwrap_or_else(|| "-".to_owned()),
        show::minute(&token.created_at),
        expires,
    ]
}

fn until(token: &Token) -> String {
    match &token.expires_at {
        Some(at) => format!("is valid until {} UTC", show::minute(at)),
        None => "is valid until it is revoked".to_owned(),
    }
}

/// Parses a duration such as `90d` into seconds.
fn seconds(text: &str) -> std::result::Result<u64, String> {
    let wrong = || format!("{text:?} is not a duration: write 90d, 12h, 30m or 45s");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let each = match unit {
        'd' => 24 * 60 * 60,
        'h' => 60 * 60,
        'm' => 60,
        's' => 1,
        _ => return Err(wrong()),
    };
    let many = text.strip_suffix(unit).unwrap_or_default();
    let many: u64 = many.parse().map_err(|_| wrong())?;
    let seconds = many.checked_mul(each).filter(|seconds| *seconds > 0);
    seconds.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        let rows = [
            ("90d", 7_776_000),
            ("12h", 43_200),
            ("30m", 1_800),
            ("45s", 45),
        ];
        for (text, expected) in rows {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in rows! {
            "", "d", "90", "0d", "-1d", "1dd", "1.5h", "9 d", "99999999999999999999d",
        } {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
