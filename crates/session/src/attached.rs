//! The contents of attachments in inputs: they are stored before the input is taken.

use unisono_context::attachment::Content;
use unisono_context::message::{NewMessage, Part};

use crate::Input;
use crate::event::Work;
use crate::machine::NewTurn;

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
            _ => {}
        }
        contents
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
