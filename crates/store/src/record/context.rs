//! The layouts of the types of conversations.

use unisono_context::alteration::{Alteration, Form};
use unisono_context::attachment::{
    AttachedFile, Content, DocumentText, Extent, FileRules, LoadedBytes,
};
use unisono_context::budget::{Budget, Limits};
use unisono_context::call::{
    CacheWarm, Choice, ClientOptions, FallbackUsed, Reply, Sent, Stop, ToolCall, ToolResult, Usage,
};
use unisono_context::checkpoint::{Body, Checkpoint, FactCoverage, KeyFact, Kind, Tier, Writer};
use unisono_context::compaction::{ContextPart, Cover, MaskTarget, Plan, Step};
use unisono_context::message::{NewMessage, Part, ReportedUsage, Role};
use unisono_context::policy::{
    Ends, Keep, Large, Masking, Method, ModelQuota, Policy, Preset, Tiers, Trigger,
};
use unisono_context::snapshot::{Manifest, ToolSpec};
use unisono_context::tokens::Encoding;
use unisono_context::topic::{DecidedTopics, EndedBy, TopicEnd};

use super::layout::{Fields, Layout, layout, put_optional, unknown};
use crate::error::Fault;

// Messages.
layout! {
    codes Role { 0 System, 1 User, 2 Assistant, 3 Tool }
    codes Encoding { 0 O200kBase, 1 Cl100kBase }
    struct NewMessage { id, role, parts, author, at, usage }
    struct ReportedUsage { input, output }
    enum Part {
        0 Text(text),
        1 ToolCall { id, name, arguments },
        2 ToolResult { call_id, content, is_error },
        3 Attachment { filename, mime, size_bytes; content },
    }
    struct AttachedFile { filename, mime, size_bytes, content; text }
    struct Content { digest, extent, loaded; text }
    struct DocumentText { digest, tokens }
    enum Extent { 0 Pixels { width, height }, 1 Pages(pages) }
}

/// Bytes have no place in a record: they are stored before their message is journaled.
impl Layout for LoadedBytes {
    fn put(&self, _: &mut Vec<u8>) -> Result<(), String> {
        match &self.0 {
            None => Ok(()),
            Some(bytes) => Err(format!(
                "the {} bytes of an attachment are not stored",
                bytes.len()
            )),
        }
    }

    fn take(_: &mut &[u8]) -> Result<Self, Fault> {
        Ok(LoadedBytes::default())
    }
}

impl Layout for FileRules {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        self.bits().put(to)
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        let bits = u16::take(from)?;
        FileRules::from_bits(bits).ok_or_else(|| Fault::Newer {
            what: format!("ways {bits:#x} to get attachments"),
        })
    }
}

// Compaction settings.
layout! {
    codes Preset { 0 Off, 1 Truncate, 2 Checkpoint, 3 Retention, 4 Progressive, 5 Tiered }
    struct Policy { preset, trigger, minimum, target, keep, method, masking, quota }
    struct Masking { over, keep_newest }
    struct ModelQuota { checkpoints, per_ms }
    enum Trigger { 0 Tokens(tokens), 1 OfWindow(part), 2 OfUsable(part) }
    enum Keep {
        0 Messages(messages),
        1 Tokens { amount, align },
        2 ShareOfHistory(part),
        3 UpToTarget,
        4 Tiers(tiers),
        5 MessagesByWindow(messages),
        6 TokensByWindow { amount, align },
    }
    enum Method { 0 Summarise { cap }, 1 Drop }
    struct Tiers {
        topic, topics, bulks, topic_cap, bulk_cap, topics_keep, merge, attention, large, ends
    }
    struct Ends { silence_ms, over }
    enum Large { 0 OfTopic(part), 1 Chars(chars) }
}

// Compactions.
layout! {
    struct Plan { step, budget, before, target, tightened }
    struct Budget { encoding, window, usable, per_message; files }
    struct Limits { window, max_output, encoding, per_message; files }
    struct MaskTarget { message, ordinal, tokens }
    struct Cover { spans, fresh, cutoff, supersedes, original }
    enum Step {
        0 Mask(targets),
        1 Cut { message, ordinal, target_chars },
        2 Summarise { cover, tier, cap, writer },
        3 Drop { cover },
        4 Regenerate { cover, prior, cap },
        5 Truncate { messages, target_chars },
    }
    enum ContextPart { 0 Topic { message }, 1 Attention, 2 Large { over } }
    struct Alteration { message, ordinal, form, counts }
    enum Form { 0 Masked { tokens }, 1 Cut { target_chars }, 2 Truncated { target_chars } }
}

// Summaries, topics and frozen contexts.
layout! {
    codes Kind { 0 Auto, 1 Manual }
    codes Tier { 0 Conversation, 1 Topic, 2 Bulk }
    codes Writer { 0 Model, 1 Deterministic }
    struct Checkpoint {
        id, number, parent, covers, cutoff, cutoff_digest, supersedes, kind, tier, preset, writer,
        model, body, original, counts, messages_included, key_facts, cost_micros, duration_ms,
        degraded, at; coverage
    }
    struct FactCoverage { facts, kept, quoted }
    enum Body { 0 Summary(text), 1 Tombstone }
    struct KeyFact { text, ordinal }
    codes EndedBy { 0 Phrase, 1 Silence, 2 Share, 3 Person }
    struct TopicEnd { opener, by }
    struct DecidedTopics { through, ends }
    struct Manifest { version, head, checkpoints, spans, altered, preamble }
    struct ToolSpec { name, description, input_schema }
}

// Model calls.
layout! {
    codes CacheWarm { 0 Leader, 1 Prewarm, 2 Off }
    codes Stop { 0 Complete, 1 CutOff, 2 Refused }
    struct ClientOptions { tools, choice, one, stop; max_output }
    enum Choice { 0 Free, 1 Any, 2 This(tool) }
    struct Reply { text, calls, verbatim, usage, stop; fallback, request_id, calls_left_out }
    struct FallbackUsed { model; sent }
    struct Sent { prefix, max_output }
    struct ToolCall { id, name, arguments }
    struct ToolResult { call_id, content, is_error; files }
    struct Usage { input, output, cache_expected, cache_read, cache_write, cost }
}
