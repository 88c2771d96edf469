//! The notes that WhatsApp writes in the place of a message, in its several languages.

use unisono_context::message::Part;

use super::is_direction;
use crate::transcript::attachment::attachment;

/// A file that the export does not have.
const OMITTED: [&str; 8] = [
    "<Media omitted>",
    "<Medien ausgeschlossen>",
    "<Médias omis>",
    "<Multimedia omitido>",
    "<Archivo omitido>",
    "<Mídia oculta>",
    "<Media omessi>",
    "<Media weggelaten>",
];
/// A file of a known kind that the export of an iPhone does not have: `image omitted`.
const OMITTED_ENDS: [&str; 12] = [
    " omitted",
    " weggelassen",
    " ausgeschlossen",
    " omis",
    " omise",
    " omitido",
    " omitida",
    " weggelaten",
    " omessa",
    " omesso",
    " ocultada",
    " ocultado",
];
/// The kinds of these files.
const KINDS: [&str; 19] = [
    "image",
    "video",
    "audio",
    "sticker",
    "gif",
    "document",
    "bild",
    "dokument",
    "vidéo",
    "imagen",
    "imagem",
    "contact card",
    "kontaktkarte",
    "video note",
    "immagine",
    "afbeelding",
    "documento",
    "vídeo",
    "áudio",
];
/// The beginning and end of the notation of a file in the export.
const ATTACHED: [(&str, &str); 8] = [
    ("<attached: ", ">"),
    ("<Anhang: ", ">"),
    ("<pièce jointe : ", ">"),
    ("<adjunto: ", ">"),
    ("<anexado: ", ">"),
    ("<allegato: ", ">"),
    ("<bijgevoegd: ", ">"),
    ("", " (file attached)"),
];
/// The names of a file behind which Android writes this.
const ATTACHED_ENDS: [&str; 6] = [
    " (Datei angehängt)",
    " (fichier joint)",
    " (archivo adjunto)",
    " (arquivo anexado)",
    " (file allegato)",
    " (bestand bijgevoegd)",
];
const EDITED: [&str; 8] = [
    "<This message was edited>",
    "<Diese Nachricht wurde bearbeitet.>",
    "<Diese Nachricht wurde bearbeitet>",
    "<Ce message a été modifié>",
    "<Se editó este mensaje.>",
    "<Mensagem editada>",
    "<Questo messaggio è stato modificato>",
    "<Dit bericht is bewerkt>",
];
const DELETED: [&str; 17] = [
    "This message was deleted",
    "You deleted this message",
    "Diese Nachricht wurde gelöscht",
    "Du hast diese Nachricht gelöscht",
    "Ce message a été supprimé",
    "Vous avez supprimé ce message",
    "Se eliminó este mensaje",
    "Eliminaste este mensaje",
    "Este mensaje fue eliminado",
    "Este mensaje se eliminó",
    "Esta mensagem foi apagada",
    "Mensagem apagada",
    "Você apagou esta mensagem",
    "Questo messaggio è stato eliminato",
    "Hai eliminato questo messaggio",
    "Dit bericht is verwijderd",
    "U hebt dit bericht verwijderd",
];
/// The beginning of the first message of an iPhone's export. It has the name of the chat.
const ENCRYPTED: [&str; 9] = [
    "Messages and calls are end-to-end encrypted",
    "Messages to this group are now secured with end-to-end encryption",
    "Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt",
    "Les messages et les appels sont chiffrés de bout en bout",
    "Los mensajes y las llamadas están cifrados de extremo a extremo",
    "As mensagens e as chamadas são protegidas com a criptografia de ponta a ponta",
    "As mensagens e ligações são protegidas com a criptografia de ponta a ponta",
    "I messaggi e le chiamate sono crittografati end-to-end",
    "Berichten en oproepen zijn end-to-end versleuteld",
];

/// The file for which a text stands.
pub(super) fn attached(text: &str) -> Option<Part> {
    let text = text.trim_matches(is_direction);
    let file = |name: &str| attachment(name, "application/octet-stream", 0);
    if OMITTED.contains(&text) {
        return Some(file("media"));
    }
    let lower = text.to_lowercase();
    let kind = OMITTED_ENDS.iter().find_map(|end| lower.strip_suffix(end));
    if let Some(kind) = kind.filter(|kind| KINDS.contains(kind)) {
        return Some(file(kind));
    }
    let between = |(begin, end): &(&str, &str)| {
        let name = text.strip_prefix(*begin)?.strip_suffix(*end)?;
        (!name.contains('\n')).then(|| name.to_owned())
    };
    let ends = ATTACHED_ENDS.map(|end| ("", end));
    let name = ATTACHED.iter().chain(&ends).find_map(between)?;
    Some(file(&name))
}

/// A text before the mark of an edited message; `None` without one.
pub(super) fn without_edit_mark(text: &str) -> Option<&str> {
    let before = EDITED.iter().find_map(|mark| text.strip_suffix(mark))?;
    Some(before.trim_end_matches(|c: char| c.is_whitespace() || is_direction(c)))
}

/// Whether a text says that its message was deleted.
pub(super) fn is_deletion(text: &str) -> bool {
    let text = text.trim_matches(|c| is_direction(c) || c == '.');
    DELETED.contains(&text)
}

/// Whether the first text of a file says that the chat is encrypted.
pub(super) fn is_encryption_notice(text: &str) -> bool {
    ENCRYPTED.iter().any(|start| text.starts_with(start))
}
