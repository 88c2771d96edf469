//! The notes that WhatsApp writes in the place of a message, in its several languages.

use unisono_context::message::Part;

use super::is_direction;
use crate::transcript::attachment::attachment;

/// A file that the export does not have.
const OMITTED: &[&str] = &[
    "<Media omitted>",
    "<Medien ausgeschlossen>",
    "<Médias omis>",
    "<Multimedia omitido>",
    "<Archivo omitido>",
    "<Mídia oculta>",
    "<Media omessi>",
    "<Media weggelaten>",
    "<メディアは含まれていません>",
    "<メディアなし>",
    "<Без медиафайлов>",
    "<Файл пропущен>",
    "<تم استبعاد الوسائط>",
    "<המדיה לא נכללה>",
    "<מדיה הושמטה>",
    "<Pominięto multimedia>",
    "<pliki pominięto>",
    "<Medya dahil edilmedi>",
    "<Medya atlanmış>",
    "<미디어 파일 제외됨>",
    "<미디어 파일을 생략한 대화내용>",
    "<मीडिया के बिना>",
];
/// What is before and behind the kind of a file that the export of an iPhone does not have:
/// `image omitted`.
const OMITTED_AROUND: &[(&str, &str)] = &[
    ("", " omitted"),
    ("", " weggelassen"),
    ("", " ausgeschlossen"),
    ("", " ausgelassen"),
    ("", " omis"),
    ("", " omise"),
    ("", " absente"),
    ("", " manquant"),
    ("", " manquante"),
    ("", " retiré"),
    ("", " omitido"),
    ("", " omitida"),
    ("", " weggelaten"),
    ("", " omessa"),
    ("", " omesso"),
    ("", " esclusa"),
    ("", " non incluso"),
    ("", " ocultada"),
    ("", " ocultado"),
    ("", "は含まれていません"),
    ("", "を省略"),
    ("", " отсутствует"),
    ("", " не добавлен"),
    ("لم يتم إدراج ", ""),
    ("تم حذف ", ""),
    ("", " הושמט"),
    ("", " הושמטה"),
    ("", " pominięty"),
    ("", " pominięte"),
    ("pominięto ", ""),
    ("pominięta ", ""),
    ("", " dahil edilmedi"),
    ("", " 생략됨"),
    ("", " 제외됨"),
    ("", " हटाई गई"),
    ("", " हटाई गयी"),
    ("", " छोड़ा गया"),
];
/// The kinds of these files, a line for each language.
const KINDS: &str = "\
    image|video|audio|sticker|gif|document|contact card|video note|\
    bild|dokument|kontaktkarte|\
    vidéo|fiche contact|\
    imagen|documento|tarjeta de contacto|\
    imagem|vídeo|áudio|figurinha|cartão do contato|\
    immagine|scheda contatto|\
    afbeelding|visitekaartje|\
    画像|ビデオ|音声|スタンプ|ドキュメント|連絡先カード|\
    изображение|видео|аудиофайл|стикер|документ|карточка контакта|\
    الصورة|صورة gif|الفيديوهات|المقاطع الصوتية|الملصقات|المستند|بطاقة جهة اتصال|\
    התמונה|סרטון הווידאו|קטע קול|סטיקר|מסמך|כרטיס איש קשר|\
    obraz|wideo|naklejkę|plik gif|wizytówka kontaktu|\
    görüntü|ses|çıkartma|belge|kişi kartı|\
    이미지|비디오|오디오|스티커|문서|연락처 카드|\
    फ़ोटो|वीडियो|ऑडियो|स्टिकर|डॉक्यूमेंट|कॉन्टैक्ट कार्ड";
/// The beginning and end of the notation of a file in the export, of an iPhone or of Android.
const ATTACHED: &[(&str, &str)] = &[
    ("<attached: ", ">"),
    ("<Anhang: ", ">"),
    ("<pièce jointe : ", ">"),
    ("< pièce jointe : ", " >"),
    ("<adjunto: ", ">"),
    ("<anexado: ", ">"),
    ("<allegato: ", ">"),
    ("<bijgevoegd: ", ">"),
    ("<添付ファイル: ", ">"),
    ("<прикреплено: ", ">"),
    ("<المُرفق: ", ">"),
    ("<מצורף: ", ">"),
    ("<załączono: ", ">"),
    ("<", " eklendi>"),
    ("< 첨부됨: ", ">"),
    ("<अटैच किया गया: ", ">"),
    ("", " (file attached)"),
    ("", " (Datei angehängt)"),
    ("", " (fichier joint)"),
    ("", " (archivo adjunto)"),
    ("", " (arquivo anexado)"),
    ("", " (file allegato)"),
    ("", " (bestand bijgevoegd)"),
    ("", " (添付ファイル)"),
    ("", " (添付ファイル有り)"),
    ("", " (файл добавлен)"),
    ("", " (الملف مرفق)"),
    ("", " (קובץ מצורף)"),
    ("", " (załączony plik)"),
    ("", " (plik załączony)"),
    ("", " (dosya ekli)"),
    ("", " (파일 첨부됨)"),
    ("", " (फाइल अटैच कर दी गई है)"),
];
/// The mark of an edited message. An iPhone has a mark of direction before it, in any language.
const EDITED: &[&str] = &[
    "<This message was edited>",
    "<Diese Nachricht wurde bearbeitet.>",
    "<Diese Nachricht wurde bearbeitet>",
    "<Ce message a été modifié>",
    "<Se editó este mensaje.>",
    "<Mensagem editada>",
    "<Questo messaggio è stato modificato>",
    "<Dit bericht is bewerkt>",
    "<Сообщение изменено>",
    "<تم تعديل هذه الرسالة>",
    "<ההודעה נערכה>",
    "<Ta wiadomość została zmieniona>",
    "<Bu mesaj düzenlendi>",
];
const DELETED: &[&str] = &[
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
    "このメッセージは削除されました",
    "このメッセージを削除しました",
    "Данное сообщение удалено",
    "Вы удалили данное сообщение",
    "Вы удалили это сообщение",
    "تم حذف هذه الرسالة",
    "لقد حذَفت هذه الرسالة",
    "أنت حذفت هذه الرسالة",
    "הודעה זו נמחקה",
    "מחקת את ההודעה הזו",
    "מחקת הודעה זו",
    "Ta wiadomość została usunięta",
    "Usunięto tę wiadomość",
    "Usunąłeś(-ęłaś) tę wiadomość",
    "Bu mesaj silindi",
    "Bu mesajı sildiniz",
    "이 메시지는 삭제되었습니다",
    "이 메시지를 삭제했습니다",
    "삭제한 메시지입니다",
    "यह मैसेज डिलीट कर दिया गया है",
    "आपने यह मैसेज डिलीट किया",
    "यह संदेश मिटाया गया",
    "आपने यह संदेश मिटाया",
];
/// The beginning of the first message of an iPhone's export. It has the name of the chat.
const ENCRYPTED: &[&str] = &[
    "Messages and calls are end-to-end encrypted",
    "Messages to this group are now secured with end-to-end encryption",
    "Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt",
    "Les messages et les appels sont chiffrés de bout en bout",
    "Los mensajes y las llamadas están cifrados de extremo a extremo",
    "As mensagens e as chamadas são protegidas com a criptografia de ponta a ponta",
    "As mensagens e ligações são protegidas com a criptografia de ponta a ponta",
    "I messaggi e le chiamate sono crittografati end-to-end",
    "Le chiamate e i messaggi sono crittografati end-to-end",
    "Berichten en oproepen zijn end-to-end versleuteld",
    "Berichten en gesprekken worden end-to-end versleuteld",
    "メッセージと通話はエンドツーエンド暗号化されています",
    "Сообщения и звонки защищены сквозным шифрованием",
    "الرسائل والمكالمات مشفرة تمامًا",
    "ההודעות והשיחות מוצפנות מקצה",
    "Wiadomości i połączenia są w pełni zaszyfrowane",
    "Wiadomości i połączenia są szyfrowane end-to-end",
    "Mesajlar ve aramalar uçtan uca şifrelidir",
    "메시지 및 전화는 종단간 암호화",
    "मैसेजेस और कॉल्स एंड-टू-एंड एन्क्रिप्टेड हैं",
];

/// The file for which a text stands.
pub(super) fn attached(text: &str) -> Option<Part> {
    let text = text.trim_matches(is_direction);
    let file = |name: &str| attachment(name, "application/octet-stream", 0);
    if OMITTED.contains(&text) {
        return Some(file("media"));
    }
    let lower = text.to_lowercase();
    let around = OMITTED_AROUND.iter();
    let mut kinds = around.filter_map(|around| between(&lower, *around));
    if let Some(kind) = kinds.find(|kind| KINDS.split('|').any(|known| known == *kind)) {
        return Some(file(kind));
    }
    let mut names = ATTACHED.iter().filter_map(|around| between(text, *around));
    let name = names.find(|name| !name.contains('\n'))?;
    Some(file(name))
}

fn between<'t>(text: &'t str, (begin, end): (&str, &str)) -> Option<&'t str> {
    text.strip_prefix(begin)?.strip_suffix(end)
}

/// A text before the mark of an edited message; `None` without one.
pub(super) fn without_edit_mark(text: &str) -> Option<&str> {
    let known = EDITED.iter().find_map(|mark| text.strip_suffix(mark));
    let before = known.or_else(|| before_marked_note(text))?;
    Some(before.trim_end_matches(|c: char| c.is_whitespace() || is_direction(c)))
}

/// A text before a note in angles, with a mark of direction before the note, that stands for no file.
fn before_marked_note(text: &str) -> Option<&str> {
    let (before, note) = text.strip_suffix('>')?.rsplit_once('<')?;
    let is_one = before.ends_with(is_direction) && !note.contains([':', '\n']);
    let is_file = || attached(text.get(before.len()..).unwrap_or_default()).is_some();
    (is_one && !is_file()).then_some(before)
}

/// Whether a text says that its message was deleted.
pub(super) fn is_deletion(text: &str) -> bool {
    let text = text.trim_matches(|c| is_direction(c) || c == '.' || c == '。');
    DELETED.contains(&text)
}

/// Whether the first text of a file says that the chat is encrypted.
pub(super) fn is_encryption_notice(text: &str) -> bool {
    ENCRYPTED.iter().any(|start| text.starts_with(start))
}

/// Whether WhatsApp wrote the text of a line, and not the person with whose name it begins: a mark of direction
/// is before the text, and it stands for no file.
pub(super) fn is_note(line: &str, text: &str) -> bool {
    let before = line.trim_end().strip_suffix(text);
    let is_marked = before.is_some_and(|before| before.trim_end().ends_with(is_direction));
    is_marked && attached(text).is_none()
}
