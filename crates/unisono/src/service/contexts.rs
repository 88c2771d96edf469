//! Contexts, snapshots and pins.

use std::sync::Arc;

use async_trait::async_trait;
use unisono_api::context::{Context, ContextQuery, ContextSize, Snapshot};
use unisono_api::pin::{Pin, Pins};
use unisono_api::service::{Contexts, Result as Answer};
use unisono_api::session::BranchPageQuery;
use unisono_api::{Code, Page};
use unisono_context::{Digest, MessageId, SessionId, SnapshotId, TurnId};
use unisono_session::{Input, State};

use super::agents::asked_of;
use super::messages::{message_at, unknown_branch};
use super::{cursor, id};
use crate::Local;
use crate::ask::Ask;
use crate::context::{self, BranchContext, ContextExtras, pins, sections, sizes, tip};
use crate::error::Error;
use crate::history;
use crate::local::off_thread;
use crate::models;
use crate::view::{Inspect as _, View};

#[async_trait]
impl Contexts for Local {
    async fn context(&self, session: &str, query: &ContextQuery) -> Answer<Context> {
        let session = self.view(id("session", session)?).await?;
        let who = (query.lead.as_deref(), query.agents.as_deref());
        let ask = asked_of(who, &query.settings)?.branch(query.branch.as_str());
        Ok(seen(self, &session, &ask, query.exact).await?)
    }

    async fn context_history(
        &self,
        session: &str,
        query: &BranchPageQuery,
    ) -> Answer<Page<ContextSize>> {
        let session = self.view(id("session", session)?).await?;
        let before: Option<u64> = cursor(query.cursor.as_deref())?;
        let on = query.branch.clone();
        let known = move |state: &State| tip(state, &on).is_some();
        if !session.inspect(known).await.map_err(Error::from)? {
            return Err(unknown_branch(&query.branch).into());
        }
        let wanted = (&*query.branch, before, Page::<()>::size(query.limit));
        let page = sizes::page(self.journal(), &session, wanted).await;
        let (items, next) = page.map_err(Error::from)?;
        Ok(Page {
            items,
            next: next.map(|event| event.to_string()),
        })
    }

    async fn snapshot(&self, session: &str, snapshot: &str) -> Answer<Snapshot> {
        let session = self.view(id("session", session)?).await?;
        Ok(frozen(self, session.id(), id("snapshot", snapshot)?).await?)
    }

    async fn pins(&self, session: &str, query: &BranchPageQuery) -> Answer<Pins> {
        let session = self.view(id("session", session)?).await?;
        let (after, limit) = (
            cursor(query.cursor.as_deref())?,
            Page::<()>::size(query.limit),
        );
        Ok(pinned(self, &session, &query.branch, after, limit).await?)
    }

    async fn pin(&self, session: &str, branch: &str, message: &str, pins: bool) -> Answer<Pins> {
        let session = self.view(id("session", session)?).await?;
        let message: MessageId = match message.parse() {
            Ok(ordinal) => {
                let on = branch.to_owned();
                let look = move |state: &State| message_at(state, &on, ordinal);
                session.inspect(look).await.map_err(Error::from)??
            }
            Err(_) => id("message", message)?,
        };
        let input = Input::Pin {
            branch: branch.into(),
            messages: vec![message],
            pinned: pins,
        };
        self.apply_input(&session, input).await?;
        let session = self.view(session.id()).await?;
        Ok(pinned(self, &session, branch, None, Page::<Pin>::size(None)).await?)
    }
}

/// The context of a branch for the agents of an ask.
async fn seen(local: &Local, session: &View, ask: &Ask, exact: bool) -> Result<Context, Error> {
    let setup = local.setup_for(session, ask).await?;
    let mut by = ask.context_inputs(&setup, local.calibrations())?;
    // Servers are not queried here: the newest list of skills counts.
    let lines = local.shared.server_skills.cached_lines(&setup);
    by.instructions = setup.instructions(&lines).into();
    by.reads_skills |= !lines.is_empty();
    let skills = setup.skills(&lines);
    let mut state = session.inspect(Clone::clone).await?;
    let branch = ask.on_branch().to_owned();
    let head = tip(&state, &branch).ok_or_else(|| unknown_branch(&branch))?;
    // Counting needs a tokenizer, and time.
    let look = move || {
        let shown = BranchContext::new(&mut state, head, &by)?;
        let extra = ContextExtras::new(&state, &branch, &skills, &shown)?;
        let context = sections::to_api(&shown, &extra, &state, &branch, &by);
        Ok::<_, context::Error>((context, shown.snapshot, by.team.lead))
    };
    let (context, snapshot, lead) = off_thread(look).await?;
    if !exact {
        return Ok(context);
    }
    let counted = models::count(&setup, local.extensions(), &lead, Arc::new(snapshot)).await;
    Ok(context.counted(counted))
}

/// A frozen context, rebuilt from the journal.
async fn frozen(
    local: &Local,
    session: SessionId,
    snapshot: SnapshotId,
) -> Result<Snapshot, Error> {
    let journal = local.journal();
    let trace = history::trace(journal, session).await?;
    let had = trace.turns().filter(|(_, turn)| {
        let frozen = turn.frozen.as_ref();
        frozen.is_some_and(|(_, frozen)| *frozen == snapshot)
    });
    let had: Vec<TurnId> = had.map(|(turn, _)| turn).collect();
    let first = had.first().copied();
    let first = first.ok_or_else(|| Error::not_found("snapshot", snapshot))?;
    let opened = trace.runs().map(|(_, run)| &run.opened.1);
    let given = opened.filter(|opened| opened.snapshot == Some(snapshot));
    let given: Vec<Digest> = given.map(|opened| opened.definition).collect();
    let agents = u32::try_from(given.len()).unwrap_or(u32::MAX);
    let replay = history::replay(journal, session, first).await?;
    let turn = replay.turn();
    let frozen = turn.and_then(|turn| Some((turn, turn.snapshot.0.clone()?)));
    let Some((turn, frozen)) = frozen else {
        let why = replay.snapshot_error().map(ToString::to_string);
        let detail = why.unwrap_or_else(|| "it cannot be rebuilt".to_owned());
        return Err(Error::new(Code::Failed, detail));
    };
    let budget = context::frozen_budget(replay.state(), turn.accepted.lead, given);
    let budget = budget.ok_or_else(|| Error::new(Code::Failed, "its lead is not recorded"))?;
    let tokens = sections::Tokens {
        state: replay.state(),
        budget: &budget,
    };
    Ok(Snapshot {
        session: session.to_string(),
        snapshot: snapshot.to_string(),
        turns: had.iter().map(ToString::to_string).collect(),
        agents,
        encoding: budget.encoding.name().to_owned(),
        system: frozen.preamble().system().to_string(),
        tools: sections::tools(frozen.preamble()),
        summaries: sections::summaries(&frozen, &tokens),
        messages: sections::entries(&frozen, &tokens),
    })
}

async fn pinned(
    local: &Local,
    session: &View,
    branch: &str,
    after: Option<u32>,
    limit: usize,
) -> Result<Pins, Error> {
    let setup = local.setup_for_reading(session).await?;
    let mut state = session.inspect(Clone::clone).await?;
    let (on, learnt) = (branch.to_owned(), local.calibrations().clone());
    let work = move || pins::Pins::load(&setup, &learnt, &mut state, &on);
    let pins = off_thread(work).await?;
    let left = pins.messages.iter();
    let left = left.filter(|(message, _)| after.is_none_or(|after| message.ordinal.0 > after));
    let pinned = left.map(|(message, tokens)| Pin {
        message: message.id.to_string(),
        ordinal: message.ordinal.0,
        role: message.role.name().to_owned(),
        tokens: tokens.0,
        text: message.countable_text(),
    });
    let part = Page::first(pinned, limit, |last| last.ordinal.to_string());
    Ok(Pins {
        session: session.id().to_string(),
        branch: branch.to_owned(),
        pinned: part.items,
        next: part.next,
        pinned_tokens: pins.tokens().0,
        usable_tokens: pins.usable.0,
    })
}
