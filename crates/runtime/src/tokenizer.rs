//! The tokenizer actor: counts long texts on blocking threads, short ones itself.
//!
//! Owns only the right to count: encodings are built once per process. Sessions and the compactor
//! send to it through its [`Handle`], which admits a bounded number of requests. A text that cannot
//! be tokenized is estimated, so a count never fails; a request that is lost with the actor answers
//! [`Error::Unavailable`] and is repeated.

use std::sync::Arc;

use ractor::{Actor, ActorRef};
use tokio::sync::{Semaphore, oneshot};
use unisono_context::Encoding;
use unisono_context::tokens::Count;
use unisono_model::tokenizer::Tokenizer;

use crate::address::{ActorAddress, ActorResult};
use crate::error::Error;

/// The maximum total size of texts that the actor counts itself, in bytes, which is faster than
/// using another thread.
const FEW_BYTES: usize = 1024;

#[derive(Debug)]
pub(crate) enum Msg {
    /// Count texts, in order.
    Count {
        texts: Vec<String>,
        encoding: Encoding,
        reply: oneshot::Sender<Vec<Count>>,
    },
}

/// The handle for callers.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    address: ActorAddress<Msg>,
    permits: Arc<Semaphore>,
}

impl Handle {
    /// A handle that admits this number of concurrent requests; others wait.
    pub(crate) fn new(address: ActorAddress<Msg>, requests: usize) -> Handle {
        let permits = Arc::new(Semaphore::new(requests.max(1)));
        Handle { address, permits }
    }

    pub(crate) async fn count(
        &self,
        texts: Vec<String>,
        encoding: Encoding,
    ) -> Result<Vec<Count>, Error> {
        let gone = || Error::Unavailable("tokenizer");
        let _permit = self.permits.acquire().await.map_err(|_| gone())?;
        let (reply, answer) = oneshot::channel();
        let message = Msg::Count {
            texts,
            encoding,
            reply,
        };
        self.address.send(message).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

pub(crate) struct TokenizerActor;

/// Counts texts in an encoding, in order, on this thread.
pub(crate) fn count(texts: &[String], encoding: Encoding) -> Vec<Count> {
    match Tokenizer::load(encoding) {
        Ok(tokenizer) => tokenizer.count_many(texts),
        Err(error) => {
            tracing::error!(%error, "tokens are estimated from bytes");
            let estimate = |text: &String| Count::approximate(text.len() as u64);
            texts.iter().map(estimate).collect()
        }
    }
}

fn on_count(texts: Vec<String>, encoding: Encoding, reply: oneshot::Sender<Vec<Count>>) {
    let bytes: usize = texts.iter().map(String::len).sum();
    let ready = Tokenizer::loaded(encoding).filter(|_| bytes <= FEW_BYTES);
    if let Some(tokenizer) = ready {
        // The caller may have given up.
        let _ = reply.send(tokenizer.count_many(&texts));
        return;
    }
    // A panic drops the reply, and the request is repeated.
    tokio::task::spawn_blocking(move || {
        let _ = reply.send(count(&texts, encoding));
    });
}

impl Actor for TokenizerActor {
    type Msg = Msg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Msg>, (): ()) -> ActorResult {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Msg>, message: Msg, (): &mut ()) -> ActorResult {
        match message {
            Msg::Count {
                texts,
                encoding,
                reply,
            } => on_count(texts, encoding, reply),
        }
        Ok(())
    }
}
