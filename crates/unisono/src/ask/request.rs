//! An ask as a request to a daemon over HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unisono_api::compaction::{
    EditSummary, NewCompaction, OnFailure, RegenerateSummary, RevertCheckpoint,
};
use unisono_api::turn::{NewAttachment, NewTurn, Settings, TurnRequest};
use unisono_context::compaction::ContextPart;
use unisono_context::message::Part;
use unisono_context::policy::Keep;
use unisono_session::event::{SummaryFallback, SummaryOptions};

use super::{Ask, Purpose};

impl Ask {
    /// The same ask as a request that is answered when the turn is accepted. Its settings are
    /// texts, as on a command line.
    pub fn request(&self) -> TurnRequest {
        let (branch, wait) = (self.branch.to_string(), false);
        match &self.work {
            Purpose::Task(_) | Purpose::Results(_) => TurnRequest::Task(NewTurn {
                task: match &self.work {
                    Purpose::Task(task) => task.clone(),
                    // Programs with client tools call the daemon themselves.
                    _ => String::new(),
                },
                branch,
                lead: self.lead.clone(),
                agents: self.agents.clone(),
                tools: Vec::new(),
                tool_choice: None,
                parallel_tool_calls: None,
                attachments: self.attachments(),
                results: Vec::new(),
                settings: self.own(),
                wait,
            }),
            Purpose::Compact(..) | Purpose::CompactPart(..) => {
                TurnRequest::Compact(self.compaction_request())
            }
            Purpose::Revert(checkpoint) => TurnRequest::Revert {
                checkpoint: checkpoint.to_string(),
                new: RevertCheckpoint { branch, wait },
            },
            Purpose::Regenerate(checkpoint, writing) => TurnRequest::Regenerate {
                checkpoint: checkpoint.to_string(),
                new: RegenerateSummary {
                    instructions: writing.instructions.as_ref().map(ToString::to_string),
                    summariser: writing.summariser.as_ref().map(ToString::to_string),
                    on_failure: on_failure(writing.unwritten),
                    settings: self.own(),
                    branch,
                    wait,
                },
            },
            Purpose::Edit(checkpoint, text, _) => TurnRequest::Edit {
                checkpoint: checkpoint.to_string(),
                new: EditSummary {
                    text: text.to_string(),
                    branch,
                    wait,
                },
            },
        }
    }

    /// The request for a compaction; for any other ask, one with the defaults.
    pub fn compaction_request(&self) -> NewCompaction {
        let (keep, writing) = match &self.work {
            Purpose::Compact(keep, writing) => (*keep, writing.clone()),
            Purpose::CompactPart(_, writing) => (None, writing.clone()),
            _ => (None, SummaryOptions::default()),
        };
        let part = match self.work {
            Purpose::CompactPart(part, _) => Some(part),
            _ => None,
        };
        NewCompaction {
            branch: self.branch.to_string(),
            instructions: writing.instructions.map(|text| text.to_string()),
            summariser: writing.summariser.map(|name| name.to_string()),
            on_failure: on_failure(writing.unwritten),
            keep_messages: match keep {
                Some(Keep::Messages(messages)) => Some(messages),
                _ => None,
            },
            keep_tokens: match keep {
                Some(Keep::Tokens { amount, .. }) => Some(amount.0),
                _ => None,
            },
            topic: match part {
                Some(ContextPart::Topic { message }) => Some(message.0),
                _ => None,
            },
            attention: part == Some(ContextPart::Attention),
            large_messages: matches!(part, Some(ContextPart::Large { .. })),
            over_tokens: match part {
                Some(ContextPart::Large { over }) => over.map(|over| over.0),
                _ => None,
            },
            settings: self.own(),
            wait: false,
        }
    }

    /// The attachments whose bytes are here.
    fn attachments(&self) -> Vec<NewAttachment> {
        let parts = self.parts.iter().flatten();
        let attachments = parts.filter_map(|part| match part {
            Part::Attachment {
                filename,
                mime,
                content: Some(content),
                ..
            } => Some(NewAttachment {
                filename: filename.to_string(),
                mime: mime.to_string(),
                data: content
                    .loaded
                    .0
                    .as_ref()
                    .map(|bytes| STANDARD.encode(bytes)),
                digest: content
                    .loaded
                    .0
                    .is_none()
                    .then(|| content.digest.to_string()),
                url: None,
            }),
            _ => None,
        });
        attachments.collect()
    }

    fn own(&self) -> Settings {
        let each = self.settings.iter();
        each.map(|one| (one.key.clone(), one.value.clone().into()))
            .collect()
    }
}

const fn on_failure(unwritten: SummaryFallback) -> OnFailure {
    match unwritten {
        SummaryFallback::Leave => OnFailure::Leave,
        SummaryFallback::Retry => OnFailure::Retry,
        SummaryFallback::Extractive => OnFailure::Extractive,
    }
}
