//! Not spoken yet: every reply is refused.
#![allow(unused)]

use unisono_context::Tokens;
use unisono_context::call::Reply;

use super::{Failure, Head, Mode, Seen, Sending};
use crate::language::{Class, Request};
use crate::sse;

pub(super) fn head(head: &Head<'_>) -> Vec<u8> {
    Vec::new()
}
pub(super) fn tail(request: &Request, sending: &Sending<'_>) -> Vec<u8> {
    Vec::new()
}
pub(super) fn path(mode: Mode) -> Option<String> {
    None
}
pub(super) fn whole(body: &[u8]) -> Result<Reply, Failure> {
    Err(refusal(0, &[]))
}
pub(super) fn counted(body: &[u8]) -> Result<Tokens, Failure> {
    Err(refusal(0, &[]))
}
pub(super) fn refusal(status: u16, body: &[u8]) -> Failure {
    Failure::new(
        Class::Internal,
        "this program does not speak the dialect yet",
    )
}

/// Reads one streamed reply.
#[derive(Debug, Default)]
pub struct Decoder {}

impl Decoder {
    pub(super) fn event<'d>(&'d mut self, event: &sse::Event<'_>) -> Result<Seen<'d>, Failure> {
        Err(refusal(0, &[]))
    }
    pub(super) fn finish(self) -> Result<Reply, Failure> {
        Err(refusal(0, &[]))
    }
}
