//! Requests of an agent to its model: what listens to the reply, and the files that it is sent with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use unisono_context::attachment::{Files, LoadedBytes};
use unisono_model::language::{Listener, Request};
use unisono_model::media::Accepts;
use unisono_session::run::RunCause;

use super::{Ctx, PROGRESS_EVERY, lock};
use crate::agent::{Failure, request, results};
use crate::clock;

impl Ctx {
    /// A request for a task on the frozen context, according to the definition.
    pub(crate) fn request(&self, task: Arc<str>) -> Request {
        Request {
            listener: self.listener(),
            ..request::for_task(self.assignment(), self.prefix().clone(), task)
        }
    }

    /// The first request of a model-driven run, with as much of the results as fits.
    ///
    /// # Errors
    /// Role and task alone do not fit.
    pub(crate) async fn first_request(&self) -> Result<Request, Failure> {
        let count = |texts| self.count(texts);
        let first = results::first_request(self.assignment(), self.prefix().clone(), count).await;
        let first = first.map_err(|reason| Failure::new(RunCause::Overflow, reason))?;
        Ok(Request {
            listener: self.listener(),
            ..first
        })
    }

    /// Forwards a reply as it arrives, and reports its growth.
    fn listener(&self) -> Listener {
        let (ctx, seen) = (self.clone(), AtomicUsize::new(0));
        let listener = Listener::new(move |piece| {
            ctx.inner.first_token.get_or_init(clock::now);
            ctx.inner.port.text_delta(ctx.run(), piece);
            let before = seen.fetch_add(piece.len(), Ordering::Relaxed);
            let after = before + piece.len();
            if before / PROGRESS_EVERY != after / PROGRESS_EVERY {
                ctx.progress(format!("replying, {} KB so far", after.div_ceil(1_000)));
            }
        });
        let ctx = self.clone();
        let listener = listener.with_cache_ready(move || {
            ctx.inner.cache_ready.get_or_init(clock::now);
        });
        let ctx = self.clone();
        let listener = listener.with_pause(move |pause, reason| {
            let until = clock::now().plus_ms(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
            ctx.inner.port.pause(ctx.run(), until, reason);
        });
        // Requests that wait before this one at the provider have their own limits.
        let limit = self.inner.waiting.limit.clone();
        listener.with_wait_guard(move || Box::new(limit.pause()))
    }

    /// Reads the files in the results of tools that the model takes. They are kept until the next
    /// request.
    pub(super) async fn load_files(
        &self,
        request: &mut Request,
        accepts: Accepts,
    ) -> Result<(), Failure> {
        let known = lock(&self.inner.files).clone();
        let mut needed = Files::default();
        let files = request.files_mut();
        for file in files.filter(|file| accepts.takes(file.content.extent)) {
            let digest = file.content.digest;
            let bytes = match known.get(&digest).or(needed.get(&digest)) {
                Some(bytes) => bytes.clone(),
                None => self.inner.port.read_content(digest).await?,
            };
            needed.insert(digest, bytes.clone());
            file.content.loaded = LoadedBytes(Some(bytes));
        }
        *lock(&self.inner.files) = needed;
        Ok(())
    }
}
