//! The built-in kinds of agents: models, programs, servers, and pipelines of other agents.

pub(crate) mod a2a;
pub(crate) mod acp;
pub(crate) mod command;
pub(crate) mod http;
pub(crate) mod llm;
pub(crate) mod pipeline;
