//! Notes that WhatsApp writes between messages.

use super::*;

#[test]
fn a_group_of_whatsapp_says_nothing() {
    let line = |at: &str, name: &str, said: &str| format!("[12.03.24, {at}] {name}: {said}\n");
    let notice = "\u{200e}Messages and calls are end-to-end encrypted.";
    let text = [
        line("09:15:02", "Harbour", notice),
        line("09:15:03", "Harbour", "\u{200e}Ida added you"),
        line("09:16:00", "Ida", "\u{200e}Location: the quay"),
        line("09:17:00", "Tom", "Good."),
        line("09:18:00", "Harbour", "\u{200e}You're now an admin"),
        line("09:19:00", "Ida", "At 7."),
    ];
    let text = text.concat();
    let expected = ["Ida: Location: the quay", "Tom: Good.", "Ida: At 7."];
    assert_eq!(authored(&text, None), expected);
    // The name of a chat of two is that of the other person.
    let talk = text.replace("You're now an admin", "image omitted");
    assert_eq!(authored(&talk, None).len(), 5);
    let talk = text.replace("\u{200e}You're now", "You're now");
    assert_eq!(authored(&talk, None).len(), 5);
}

#[test]
fn what_whatsapp_writes_is_not_said_by_people() {
    let text = "13.11.24, 18:02 - Rolf: Kommst du?\n13.11.24, 18:05 - Ida: <Medien ausgeschlossen>\n\
        13.11.24, 18:06 - Rolf: Gleis 9 \u{200e}<This message was edited>\n\
        13.11.24, 18:07 - Ida: <Médias omis>\n13.11.24, 18:08 - Rolf: Diese Nachricht wurde gelöscht.\n\
        13.11.24, 18:09 - Ida: This message was deleted\n13.11.24, 18:10 - Rolf: <Multimedia omitido>\n";
    let outline = outline_of(text.as_bytes(), None);
    let attachments = outline.matches("filename: \"media\"").count();
    assert_eq!(attachments, 3, "{outline}");
    assert!(outline.contains("Text(\"Gleis 9\")"), "{outline}");
    assert_contains(&outline, "left behind 2 deleted message\n");
    assert!(outline.contains("left behind 1 edit mark\n"), "{outline}");
}

#[test]
fn what_whatsapp_writes_is_known_in_each_of_its_languages() {
    for [deleted, file, omitted, edited] in rows! {
        ["You deleted this message", "a.jpg (file attached)", "image omitted", "<This message was edited>"],
        ["Du hast diese Nachricht gelöscht.", "<Anhang: a.jpg>", "Bild weggelassen", "<Diese Nachricht wurde bearbeitet>"],
        ["Ce message a été supprimé", "a.jpg (fichier joint)", "vidéo omise", "<Ce message a été modifié>"],
        ["Se eliminó este mensaje.", "<adjunto: a.jpg>", "imagen omitida", "<Se editó este mensaje.>"],
        ["Esta mensagem foi apagada", "a.jpg (arquivo anexado)", "imagem ocultada", "<Mensagem editada>"],
        ["Questo messaggio è stato eliminato", "a.jpg (file allegato)", "immagine omessa", "<Questo messaggio è stato modificato>"],
        ["Dit bericht is verwijderd.", "<bijgevoegd: a.jpg>", "afbeelding weggelaten", "<Dit bericht is bewerkt>"],
        ["このメッセージは削除されました。", "<添付ファイル: a.jpg>", "画像は含まれていません", "<編集されました>"],
        ["Данное сообщение удалено.", "a.jpg (файл добавлен)", "изображение отсутствует", "<Сообщение изменено>"],
        ["تم حذف هذه الرسالة.", "<المُرفق: a.jpg>", "لم يتم إدراج الصورة", "<تم تعديل هذه الرسالة>"],
        ["הודעה זו נמחקה.", "<מצורף: a.jpg>", "התמונה הושמטה", "<ההודעה נערכה>"],
        ["Usunięto tę wiadomość", "a.jpg (plik załączony)", "pominięto naklejkę", "<Ta wiadomość została zmieniona>"],
        ["Bu mesaj silindi.", "<a.jpg eklendi>", "Kişi kartı dahil edilmedi", "<Bu mesaj düzenlendi>"],
        ["이 메시지는 삭제되었습니다.", "< 첨부됨: a.jpg>", "이미지 생략됨", "<편집됨>"],
        ["यह मैसेज डिलीट कर दिया गया है.", "<अटैच किया गया: a.jpg>", "फ़ोटो हटाई गई", "<बदला गया>"],
    } {
        let line =
            |name: &str, said: &str| format!("[12.03.24, 09:15:02] {name}: \u{200e}{said}\n");
        let edited = format!("On Friday. \u{200e}{edited}");
        let all = [
            line("Ida", "When?"),
            line("Tom", deleted),
            line("Ida", file),
            line("Tom", omitted),
            line("Ida", &edited),
        ];
        let outline = outline_of(all.concat().as_bytes(), None);
        assert_contains(
            &outline,
            "left behind 1 deleted message\nleft behind 1 edit mark\n",
        );
        assert_contains(&outline, "Text(\"On Friday.\")");
        assert_eq!(outline.matches("Attachment {").count(), 2, "{outline}");
    }
}

#[test]
fn a_person_does_not_say_what_whatsapp_writes_about_them() {
    let text = "[12.03.24, 09:15:02] Ida: Hello.\n\
        \u{200e}[12.03.24, 09:15:03] Ida: \u{200e}Ida changed this group's icon\n\
        [12.03.24, 09:15:04] \u{202a}+49 30 1\u{202c}: \u{200e}\u{202a}+49 30 1\u{202c} joined from the community\n\
        [12.03.24, 09:15:05] Tom: Tom is here.\n\
        [12.03.24, 09:15:06] Ida: \u{200e}Ida.vcf (file attached)\n";
    let outline = outline_of(text.as_bytes(), None);
    assert_contains(&outline, "left behind 2 unnamed notice\n");
    assert_contains(&outline, "Text(\"Tom is here.\")");
    assert_contains(&outline, "filename: \"Ida.vcf\"");
}
