//! Serves one answer for ever, in all dialects, on a port of loopback: for trying a client by
//! hand, and for benchmarks in which the provider's work is not to count.
//!
//! ```text
//! cargo run -p unisono-fake-provider -- --port 8080 --text "Hello." --pieces 3
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::process::ExitCode;
use std::time::Duration;

use unisono_fake_provider::{Act, Answer, CacheSim, FakeProvider, Keep, Pace, Script, Usage};

const USAGE: &str = "\
usage: fake-provider [option value]...
  --port N               port of 127.0.0.1; 0: a free one (default)
  --text TEXT            what is answered
  --pieces N             characters in one piece of a stream
  --input N, --output N  tokens that answers report
  --first-ms N           time to the first event, milliseconds
  --tokens-per-second N  speed after that; 0: no pause
  --cache yes            has a prompt cache, and reports what it does";

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    port: u16,
    answer: Answer,
    pace: Pace,
    cache: bool,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(reason) => {
            eprintln!("{reason}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let provider = serve(&options);
    println!("{}", provider.url());
    loop {
        // It is ended from outside.
        std::thread::park();
    }
}

fn serve(options: &Options) -> FakeProvider {
    let mut act = Act::answer(options.answer.clone());
    if options.pace != UNPACED {
        act = act.pace(options.pace);
    }
    let mut builder = FakeProvider::builder()
        .port(options.port)
        .keep(Keep::Nothing)
        .script(Script::always(act));
    if options.cache {
        builder = builder.cache(&CacheSim::default());
    }
    builder.start_on_thread()
}

const UNPACED: Pace = Pace {
    first: Duration::ZERO,
    tokens_per_second: 0,
};

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        port: 0,
        answer: Answer::default(),
        pace: UNPACED,
        cache: false,
    };
    let mut pieces = None;
    let Usage {
        mut input,
        mut output,
        ..
    } = Usage::default();
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} has no value"))?;
        match name.as_str() {
            "--port" => options.port = number(&name, &value)?,
            "--text" => options.answer = Answer::text(value),
            "--pieces" => pieces = Some(number(&name, &value)?),
            "--input" => input = number(&name, &value)?,
            "--output" => output = number(&name, &value)?,
            "--first-ms" => options.pace.first = Duration::from_millis(number(&name, &value)?),
            "--tokens-per-second" => options.pace.tokens_per_second = number(&name, &value)?,
            "--cache" => options.cache = value == "yes",
            _ => return Err(format!("there is no option {name}")),
        }
    }
    options.answer.usage = Usage::new(input, output);
    if let Some(characters) = pieces {
        options.answer = options.answer.in_pieces_of(characters);
    }
    Ok(options)
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{name} takes a number, not {value:?}"))
}

#[cfg(test)]
mod tests {
    //! What command lines ask for, and what is served then.

    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_in_any_order() {
        let options = parsed("--pieces 2 --text abc --output 9 --first-ms 5").expect("valid");
        assert_eq!(options.answer.text, ["ab", "c"]);
        assert_eq!(options.answer.usage, Usage::new(100, 9));
        assert_eq!(options.pace.first, Duration::from_millis(5));
        assert!(!options.cache);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("--port", "--port has no value"),
            ("--port x", "--port takes a number, not \"x\""),
            ("--prot 1", "there is no option --prot"),
        ];
        for (line, reason) in cases {
            assert_eq!(parsed(line), Err(reason.to_owned()));
        }
    }

    #[test]
    fn it_serves_what_was_asked_for() {
        let options = parsed("--text Served. --cache yes --tokens-per-second 1000").expect("valid");
        let provider = serve(&options);
        let mut socket = TcpStream::connect(provider.address()).expect("connects");
        let head = "POST /v1/messages HTTP/1.1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
        socket.write_all(head.as_bytes()).expect("sends");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("reads");
        assert!(text.contains("Served."), "{text}");
        assert!(
            text.contains("\"input_tokens\":1,"),
            "the cache counts: {text}"
        );
    }
}
