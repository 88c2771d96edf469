//! Tools that are part of the program.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinSet;
use unisono_context::snapshot::ToolSpec;
use unisono_session::assignment::ToolJob;
use unisono_session::run::calls::CallOutput;
use unisono_session::tool::Contract;

use crate::failure::panic_text;
use crate::mcp::{ToolOffer, output};

/// A tool implemented in Rust. Its calls are journaled, approved and repeated like those of
/// servers' tools; `call` may be called for several calls at once.
///
/// ```
/// # use unisono_runtime as unisono;
/// # use unisono_context::snapshot::ToolSpec;
/// use unisono::Tool;
/// use unisono::tool::Call;
///
/// struct Stock;
///
/// impl Tool for Stock {
///     fn spec(&self) -> ToolSpec {
///         let schema = r#"{"type":"object","properties":{"item":{"type":"string"}}}"#;
///         ToolSpec::new("stock", "How many of an item there are", schema)
///     }
///
///     async fn call(&self, call: Call) -> Result<String, String> {
///         let item = call.arguments["item"].as_str().ok_or("name an item")?;
///         Ok(format!("7 of {item}"))
///     }
/// }
/// assert_eq!(&*Stock.spec().name, "stock");
/// ```
///
/// [`from_fn`] makes a tool of a function.
pub trait Tool: Send + Sync + 'static {
    /// Its specification for models: the name (`[a-zA-Z0-9_-]{1,64}`, without `__`), the purpose,
    /// and a JSON schema of its arguments. With the feature `schema`, arguments are checked against
    /// it before a call.
    fn spec(&self) -> ToolSpec;

    /// The effect of a call that is made twice. After a crash it may be unknown whether a call was
    /// made.
    fn contract(&self) -> Contract {
        Contract::AtMostOnce
    }

    /// Makes a call and returns its result for the model, as text. The middle of a text that is
    /// longer than the room for results is cut out. The future is dropped if the run is cancelled or
    /// times out.
    ///
    /// # Errors
    /// The reason why there is no result, for the model. A panic becomes such an error, too.
    fn call(&self, call: Call) -> impl Future<Output = Result<String, String>> + Send;
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// Its arguments: an object that fits the tool's schema.
    pub arguments: Value,
    /// The same for every repetition of this call, and for no other call.
    pub key: Arc<str>,
}

/// A tool that calls this function. Its contract is [`Contract::AtMostOnce`].
///
/// ```
/// # use unisono_runtime as unisono;
/// # use unisono_context::snapshot::ToolSpec;
/// use unisono::Tool;
/// use unisono::tool::{self, Call};
///
/// async fn stock(call: Call) -> Result<String, String> {
///     let item = call.arguments["item"].as_str().ok_or("name an item")?;
///     Ok(format!("7 of {item}"))
/// }
///
/// let schema = r#"{"type":"object","properties":{"item":{"type":"string"}}}"#;
/// let spec = ToolSpec::new("stock", "How many of an item there are", schema);
/// assert_eq!(tool::from_fn(spec.clone(), stock).spec(), spec);
/// ```
pub fn from_fn<F, Working>(spec: ToolSpec, function: F) -> impl Tool
where
    F: Fn(Call) -> Working + Send + Sync + 'static,
    Working: Future<Output = Result<String, String>> + Send + 'static,
{
    FnTool { spec, function }
}

struct FnTool<F> {
    spec: ToolSpec,
    function: F,
}

impl<F, Working> Tool for FnTool<F>
where
    F: Fn(Call) -> Working + Send + Sync + 'static,
    Working: Future<Output = Result<String, String>> + Send + 'static,
{
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call(&self, call: Call) -> impl Future<Output = Result<String, String>> + Send {
        (self.function)(call)
    }
}

type Calling = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

pub(crate) trait AnyTool: Send + Sync + 'static {
    fn offer(&self) -> ToolOffer;
    fn call_boxed(self: Arc<Self>, call: Call) -> Calling;
}

impl<T: Tool> AnyTool for T {
    fn offer(&self) -> ToolOffer {
        let spec = self.spec();
        ToolOffer {
            own_name: spec.name.clone(),
            spec,
            contract: self.contract(),
        }
    }

    fn call_boxed(self: Arc<Self>, call: Call) -> Calling {
        Box::pin(async move { self.call(call).await })
    }
}

/// Makes a call. Every error becomes a result for the model, including a panic.
pub(crate) async fn call(tool: Arc<dyn AnyTool>, job: &ToolJob) -> CallOutput {
    let call = Call {
        arguments: serde_json::from_str(&job.arguments).unwrap_or_default(),
        key: job.id.to_string().into(),
    };
    // Aborted when the caller stops waiting.
    let mut calls = JoinSet::new();
    calls.spawn(tool.call_boxed(call));
    let result = match calls.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(ended)) if ended.is_panic() => {
            let panic = ended.into_panic();
            Err(format!("the tool panicked: {}", panic_text(panic.as_ref())))
        }
        Some(Err(_)) | None => Err("the tool was stopped".to_owned()),
    };
    let (content, is_error) = match result {
        Ok(content) => (content, false),
        Err(reason) => (format!("[failed: {reason}]"), true),
    };
    CallOutput::text(
        output::truncate_middle(&content.into(), job.max_chars),
        is_error,
    )
}
