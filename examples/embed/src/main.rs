//! An agent, a tool and a language model of a program's own, and a conversation from memory.

use unisono::{Answer, Ask, Conversation, Ctx, Failure, Local, Reply, Request, Task, ToolSpec};
use unisono::{language, tool};

async fn buyer(task: Task, ctx: Ctx) -> Result<Answer, Failure> {
    let saw = ctx.snapshot().map(|it| it.id().to_string());
    let stock = ctx.call_tool("stock", r#"{"item":"tent"}"#).await?;
    let reply = ctx.ask_model(task.text).await?;
    let (name, saw) = (&ctx.definition().id, saw.unwrap_or_default());
    let answer = format!("{name} saw {saw}; {}; {}", stock.content, reply.text);
    Ok(Answer::text(answer))
}

async fn stock(call: tool::Call) -> Result<String, String> {
    let item = call.arguments["item"].as_str().ok_or("name an item")?;
    Ok(format!("7 of {item}"))
}

async fn echo(request: Request) -> Result<Reply, language::Error> {
    let results = request.results.iter().filter_map(|it| it.outcome.answer());
    let said: Vec<&str> = results.chain([&*request.task]).collect();
    Ok(Reply::text(said.join("\n")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = r#"{"type":"object","properties":{"item":{"type":"string"}}}"#;
    let stock_spec = ToolSpec::new("stock", "How many of an item there are", schema);
    let local = Local::builder()
        .agent("buyer", buyer)
        .tool(tool::from_fn(stock_spec, stock))
        .default_model("own/echo", echo)
        .define_agent("north", "buyer", "Buys for the north", &["stock"])
        .define_agent("south", "buyer", "Buys for the south", &["stock"])
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
