//! An agent, a tool and a language model of a program's own, and a conversation from memory.

use std::error::Error;

use serde_json::Value;
use unisono::tool::Call;
use unisono::{Agent, Answer, Ask, Completion, Conversation, Ctx, Failure, Local};
use unisono::{LanguageModel, Reply, Request, Task, Tool, ToolSpec};

struct Buyer;

impl Agent for Buyer {
    async fn run(&self, task: Task, ctx: Ctx) -> Result<Answer, Failure> {
        let saw = ctx.snapshot().map(|snapshot| snapshot.id().to_string());
        let stock = ctx.call_tool("stock", r#"{"item":"tent"}"#).await?;
        let reply = ctx.ask_model(task.text).await?;
        let (name, saw) = (&ctx.definition().id, saw.unwrap_or_default());
        let answer = format!("{name} saw {saw}; {}; {}", stock.content, reply.text);
        Ok(Answer::text(answer))
    }
}

struct Stock;

impl Tool for Stock {
    fn spec(&self) -> ToolSpec {
        let schema = r#"{"type":"object","properties":{"item":{"type":"string"}}}"#;
        ToolSpec::new("stock", "How many of an item there are", schema)
    }

    async fn call(&self, call: Call) -> Result<String, String> {
        let item = call.arguments.get("item").and_then(Value::as_str);
        Ok(format!("7 of {}", item.ok_or("name an item")?))
    }
}

struct Echo;

impl LanguageModel for Echo {
    fn complete(&self, request: Request) -> Completion<'_> {
        let results = request.results.iter().filter_map(|it| it.outcome.answer());
        let said: Vec<&str> = results.chain([&*request.task]).collect();
        let reply = Reply::text(said.join("\n"));
        Box::pin(async move { Ok(reply) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let local = Local::builder()
        .agent("buyer", Buyer)
        .tool(Stock)
        .model("own/echo", Echo)
        .set("models.default", "own/echo")
        .set("agents.north.description", "Buys for the north")
        .set("agents.north.kind", "buyer")
        .set("agents.north.tools", "stock")
        .set("agents.south.description", "Buys for the south")
        .set("agents.south.kind", "buyer")
        .set("agents.south.tools", "stock")
        .store(std::env::temp_dir().join("embed"));
    let local = local.start().await?;
    let talk = Conversation::new("Tents").user("We sold three tents.");
    let session = local.import(talk).await?;
    let task = Ask::new("Do we buy?").agents(["north", "south"]);
    let finished = local.ask(&session, &task).await?;
    println!("{}", finished.answer.ok_or(finished.outcome.to_string())?);
    local.shutdown().await;
    Ok(())
}
