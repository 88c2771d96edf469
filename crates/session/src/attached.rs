//! The contents of attachments in inputs and facts: they are stored before an input is taken.

use unisono_context::attachment::Content;
use unisono_context::message::{NewMessage, Part};

use crate::event::Work;
use crate::machine::NewTurn;
use crate::{Fact, Input};

impl Input {
    /// The contents of attachments in the messages that it brings.
    pub fn contents_mut(&mut self) -> Vec<&mut Content> {
        let mut contents = Vec::new();
        match self {
            Input::Import(import) => {
                let messages = import.messages.iter_mut();
                messages.for_each(|(_, message)| of_message(message, &mut contents));
            }
            Input::Append(append) => of_message(&mut append.message, &mut contents),
            Input::Accept(turn) | Input::AcceptKeyed { turn, .. } => of_turn(turn, &mut contents),
            Input::AcceptAfter {
                preceding, turn, ..
            } => {
                let messages = preceding.messages.iter_mut();
                messages.for_each(|message| of_message(message, &mut contents));
                of_turn(turn, &mut contents);
            }
            Input::ToolEnded { output, .. } => {
                contents.extend(output.files.iter_mut().map(|file| &mut file.content));
            }
            _ => {}
        }
        contents
    }
}

impl Fact {
    /// The contents of attachments that it names.
    pub fn contents(&self) -> Vec<&Content> {
        let parts = self
            .message()
            .into_iter()
            .flat_map(|message| &message.parts);
        let in_message = parts.filter_map(Part::content);
        let step = match self {
            Fact::RunStepped { step, .. } => Some(step),
            _ => None,
        };
        let output = match self {
            Fact::ToolEnded { output, .. } => &output.files[..],
            _ => &[],
        };
        let files = step.into_iter().flat_map(|step| step.files()).chain(output);
        in_message.chain(files.map(|file| &file.content)).collect()
    }
}

fn of_turn<'m>(turn: &'m mut NewTurn, contents: &mut Vec<&'m mut Content>) {
    if let Work::Answer { input, .. } = &mut turn.work {
        of_message(input, contents);
    }
}

fn of_message<'m>(message: &'m mut NewMessage, contents: &mut Vec<&'m mut Content>) {
    contents.extend(message.parts.iter_mut().filter_map(Part::content_mut));
}
