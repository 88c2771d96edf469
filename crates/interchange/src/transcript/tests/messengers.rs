//! Exports of LINE, KakaoTalk and Discord, and logs of HexChat.

use super::*;

/// The messages of a text, each with its time, and what is left behind.
fn dated(text: &str) -> Vec<String> {
    let parsed = read_as(text.as_bytes(), &talk(None)).unwrap();
    let authored = authored(text, None).into_iter();
    let messages = parsed.import.messages.iter().zip(authored);
    let messages = messages.map(|((_, message), said)| {
        let at = jiff::Timestamp::from_millisecond(message.at.0).unwrap();
        format!("{at} {said}")
    });
    let dropped = parsed.dropped_content.iter();
    messages
        .chain(dropped.map(|(what, count)| format!("{count} {what}")))
        .collect()
}

#[test]
fn a_line_export_has_days_above_its_messages() {
    let japanese = "[LINE] 花子とのトーク履歴\n保存日時：2024/05/14 21:03\n\n\
        2024/05/12(日)\n10:32\t花子\tこんにちは\n\
        10:33\t太郎\t\"日時\n\n2024/05/20(月)\n\n\"\"駅前\"\" 14:00\"\n10:34\t花子\t[スタンプ]\n\
        10:37\t\t花子がメッセージの送信を取り消しました\n10:38\t太郎が退会しました。\n\n\
        2024/05/13(月)\n08:01\t太郎\t今日は: 休み\n";
    let expected = [
        "2024-05-12T10:32:00Z 花子: こんにちは",
        "2024-05-12T10:33:00Z 太郎: 日時//2024/05/20(月)//\"駅前\" 14:00",
        "2024-05-12T10:34:00Z 花子: [スタンプ]",
        "2024-05-13T08:01:00Z 太郎: 今日は: 休み",
        "2 leading line",
        "2 unnamed notice",
    ];
    assert_eq!(dated(japanese), expected);
    assert_eq!(dated(&japanese.replace('\n', "\r\n")), expected);
    // The weekday shows which number is the month.
    for (one, other) in [("05/06/2024", "05/07/2024"), ("06/05/2024", "07/05/2024")] {
        let text = format!(
            "[LINE] Chat history with Hana\nSaved on: 5/14/2024, 21:03\n\n\
             Mon, {one}\n10:32AM\tHana\tHello\n12:10 PM\tTaro\t\"Yes\" said Ana\n\n\
             Tue, {other}\n08:01 PM\tHana\tBye\n"
        );
        let expected = [
            "2024-05-06T10:32:00Z Hana: Hello",
            "2024-05-06T12:10:00Z Taro: \"Yes\" said Ana",
            "2024-05-07T20:01:00Z Hana: Bye",
            "2 leading line",
        ];
        assert_eq!(dated(&text), expected);
    }
}

#[test]
fn a_line_export_has_its_days_in_the_notation_of_its_language() {
    for (saved, sunday, monday, clock) in rows! {
        ("儲存日期：2024/05/14 21:03", "2024/05/12（週日）", "2024/05/13（週一）", "下午03:04"),
        ("儲存日期: 2024/5/14 21:03", "2024/5/12週日", "2024/5/13週一", "下午3:04"),
        ("儲存日期：2024/05/14 21:03", "2024.05.12 星期日", "2024.05.13 星期一", "15:04"),
        ("บันทึกเมื่อ 14/05/2567 21:03", "อา. 12/05/2567", "จ. 13/05/2567", "15:04"),
        ("บันทึกเมื่อ: 2024/05/14 21:03", "2024.05.12 วันอาทิตย์", "2024.05.13 วันจันทร์", "15:04"),
        ("저장한 날짜 : 2024/05/14 21:03", "2024.05.12 일요일", "2024.05.13 월요일", "오후 3:04"),
        ("Disimpan: 14/05/2024 21.03", "Min, 12/05/2024", "Sen, 13/05/2024", "15.04"),
        ("Disimpan: 14/05/2024 21.03", "2024.05.12 Minggu", "2024.05.13 Senin", "15:04"),
        ("Guardado: 14/05/2024 21:03", "dom., 12/05/2024", "lun., 13/05/2024", "15:04"),
        ("Guardado: 14/05/2024 21:03", "2024.05.12 domingo", "2024.05.13 lunes", "15:04"),
        ("保存日時：R6/05/14 21:03", "R6/05/12(日)", "R6/05/13(月)", "午後3:04"),
    } {
        let text = format!(
            "[LINE] Hana\n{saved}\n\n{sunday}\n{clock}\tHana\tHello\n\
             {clock}\tTaro\t\"On\n2024/05/20 Monday\nor later\"\n\n{monday}\n{clock}\tHana\tBye\n"
        );
        let expected = [
            "2024-05-12T15:04:00Z Hana: Hello",
            "2024-05-12T15:04:00Z Taro: On/2024/05/20 Monday/or later",
            "2024-05-13T15:04:00Z Hana: Bye",
            "2 leading line",
        ];
        assert_eq!(dated(&text), expected, "{text}");
    }
}

#[test]
fn a_kakao_talk_export_has_its_times_in_either_place() {
    let windows = "홍길동 님과 카카오톡 대화\n저장한 날짜 : 2024-05-14 15:12:03\n\n\
        --------------- 2024년 5월 12일 일요일 ---------------\n\
        [홍길동] [오후 3:12] 안녕하세요\n[나 무] [오후 3:13] 네\n둘째 줄\n\
        홍길동님이 김철수님을 초대했습니다.\n\
        --------------- 2024년 5월 13일 월요일 ---------------\n[나 무] [오전 12:01] 시간: 10시\n";
    let android = "홍길동 님과 카카오톡 대화\n저장한 날짜 : 2024년 5월 14일 오후 3:12\n\n\n\
        2024년 5월 12일 오후 3:12\n2024년 5월 12일 오후 3:12, 홍길동 : 안녕하세요\n\
        2024년 5월 12일 오후 3:13, 나 무 : 네\n둘째 줄\n2024년 5월 12일 오후 3:15, 홍길동님이 나갔습니다.\n\n\
        2024년 5월 13일 오전 12:01\n2024년 5월 13일 오전 12:01, 나 무 : 시간: 10시\n";
    let iphone = "Talk_2024.5.14 15:12-1.txt\n저장한 날짜 : 2024. 5. 14. 오후 3:12\n\n\
        2024년 5월 12일 일요일\n2024. 5. 12. 오후 3:12, 홍길동 : 안녕하세요\n\
        2024. 5. 12. 오후 3:13, 나 무 : 네\n둘째 줄\n2024. 5. 12. 오후 3:15: 홍길동님이 나갔습니다.\n\n\
        2024년 5월 13일 월요일\n2024. 5. 13. 오전 12:01, 나 무 : 시간: 10시\n";
    let expected = [
        "2024-05-12T15:12:00Z 홍길동: 안녕하세요",
        "2024-05-12T15:13:00Z 나 무: 네/둘째 줄",
        "2024-05-13T00:01:00Z 나 무: 시간: 10시",
        "2 leading line",
        "1 unnamed notice",
    ];
    for text in [windows, android, iphone] {
        assert_eq!(dated(text), expected, "{text}");
    }
    let japanese = [
        "2024-05-14 15:12:03\n\n--------------- 2024年5月12日 日曜日 ---------------\n\
         [花子] [午後 3:12] こんにちは\n[太 郎] [午後 3:13] はい\n二行目\n\
         --------------- 2024年5月13日 月曜日 ---------------\n[太 郎] [午前 12:01] 時間: 10時\n",
        "2024年5月14日 午後3:12\n\n\n2024年5月12日 午後3:12\n2024年5月12日 午後3:12, 花子 : こんにちは\n\
         2024年5月12日 午後3:13, 太 郎 : はい\n二行目\n\n2024年5月13日 午前12:01\n\
         2024年5月13日 午前12:01, 太 郎 : 時間: 10時\n",
    ];
    let expected = [
        "2024-05-12T15:12:00Z 花子: こんにちは",
        "2024-05-12T15:13:00Z 太 郎: はい/二行目",
        "2024-05-13T00:01:00Z 太 郎: 時間: 10時",
        "2 leading line",
    ];
    for lines in japanese {
        let text = format!("花子さんとのトーク\n保存した日付 : {lines}");
        assert_eq!(dated(&text), expected, "{text}");
    }
    let english = [
        "--------------- Sunday, May 12, 2024 ---------------\n[Hong] [3:12 PM] Hello, you\n\
         [Kim Min] [3:13 PM] Yes\nHong left this chatroom.\n\
         --------------- Monday, May 13, 2024 ---------------\n[Hong] [12:01 AM] time: 10\n",
        "May 12, 2024 at 3:12 PM\nMay 12, 2024 at 3:12\u{202f}PM, Hong : Hello, you\n\
         May 12, 2024 at 3:13 PM, Kim Min : Yes\nMay 12, 2024 at 3:15 PM: Hong left.\n\
         May 13, 2024 at 12:01 AM, Hong : time: 10\n",
        "May 12, 2024, 3:12 PM, Hong : Hello, you\nMay 12, 2024, 3:13 PM, Kim Min : Yes\n\
         May 12, 2024, 3:15 PM, Hong left.\nMay 13, 2024, 12:01 AM, Hong : time: 10\n",
    ];
    let expected = [
        "2024-05-12T15:12:00Z Hong: Hello, you",
        "2024-05-12T15:13:00Z Kim Min: Yes",
        "2024-05-13T00:01:00Z Hong: time: 10",
        "2 leading line",
        "1 unnamed notice",
    ];
    for lines in english {
        let text =
            format!("KakaoTalk Chats with Hong\nDate Saved : May 14, 2024 at 3:12 PM\n\n{lines}");
        assert_eq!(dated(&text), expected, "{text}");
    }
}

#[test]
fn a_message_of_kakao_talk_keeps_its_lines_with_a_date_alone() {
    let dates = "2024년 5월 20일 월요일\n2024년 5월 20일 오후 2:00\n강남역";
    let windows = format!(
        "홍길동 님과 카카오톡 대화\n저장한 날짜 : 2024-05-14 15:12:03\n\n\
         --------------- 2024년 5월 12일 일요일 ---------------\n[홍길동] [오후 3:12] 언제:\n{dates}\n\
         2024-05-20 14:00, 2번 출구\n[나 무] [오후 3:13] 네\n"
    );
    let expected = [
        "2024-05-12T15:12:00Z 홍길동: 언제:/2024년 5월 20일 월요일/2024년 5월 20일 오후 2:00/강남역\
         /2024-05-20 14:00, 2번 출구",
        "2024-05-12T15:13:00Z 나 무: 네",
        "2 leading line",
    ];
    assert_eq!(dated(&windows), expected);
    let android = format!(
        "홍길동 님과 카카오톡 대화\n저장한 날짜 : 2024년 5월 14일 오후 3:12\n\n\n\
         2024년 5월 12일 오후 3:12\n2024년 5월 12일 오후 3:12, 홍길동 : 언제:\n{dates}\n\
         2024년 5월 12일 오후 3:13, 나 무 : 네\n"
    );
    let expected = [
        "2024-05-12T15:12:00Z 홍길동: 언제:/2024년 5월 20일 월요일/2024년 5월 20일 오후 2:00/강남역",
        "2024-05-12T15:13:00Z 나 무: 네",
        "2 leading line",
    ];
    assert_eq!(dated(&android), expected);
}

#[test]
fn a_table_of_kakao_talk_has_a_row_for_each_message() {
    let text = "Date,User,Message\n2024-05-12 15:12:03,\"홍길동\",\"안녕하세요, \"\"나무\"\"\"\n\
        2024-05-12 15:13:00,\"나, 무\",\"네\n둘째 줄\"\n2024-05-12 15:14:00,\"홍길동\",\"\"\n\
        2024-05-13 00:00:00,Hong,5\" pipe\n2024-05-13 00:01:00,Hong,time: 10";
    let expected = [
        "2024-05-12T15:12:03Z 홍길동: 안녕하세요, \"나무\"",
        "2024-05-12T15:13:00Z 나, 무: 네/둘째 줄",
        "2024-05-13T00:00:00Z Hong: 5\" pipe",
        "2024-05-13T00:01:00Z Hong: time: 10",
        "1 empty message",
    ];
    assert_eq!(dated(text), expected);
    let windows = text.replace('\n', "\r\n").replace("네\r\n", "네\n");
    assert_eq!(dated(&windows), expected);
    let short = outline_of(format!("{text}\n2024-05-13,x\n").as_bytes(), None);
    assert_contains(&short, "talk:8:1: a row has a date, a user and a message");
}

#[test]
fn a_log_of_hexchat_has_its_year_at_its_beginning() {
    let text = "**** BEGIN LOGGING AT Sun May 12 10:32:07 2024\n\n\
        May 12 10:32:07 *\tNow talking on #harbour\nMay 12 10:32:10 <alice>\thello\n\
        May 12 10:33:10 <@bob>\thi alice: fine\nMay 12 10:34:12 *\talice waves\n\
        May 12 10:36:00 -NickServ-\tThis nick is registered.\n\
        **** ENDING LOGGING AT Sun May 12 11:00:00 2024\n\n\
        **** BEGIN LOGGING AT Tue Dec 31 23:00:00 2024\n\n\
        Dec 31 23:59:00 <alice>\tlate\nJan 01 00:01:00 <bob>\thappy new year\n";
    let expected = [
        "2024-05-12T10:32:10Z alice: hello",
        "2024-05-12T10:33:10Z bob: hi alice: fine",
        "2024-12-31T23:59:00Z alice: late",
        "2025-01-01T00:01:00Z bob: happy new year",
        "3 unnamed notice",
    ];
    assert_eq!(dated(text), expected);
    // The names of months in another language: the times of day stay in the texts.
    let danish = text
        .replace("May 12 1", "maj 12 1")
        .replace("Dec 31 2", "des 31 2");
    let said = authored(&danish, None);
    assert_eq!(said[0], "alice: [10:32:10] hello");
}

#[test]
fn an_export_of_discord_has_a_header_and_sections() {
    let rule = "=".repeat(62);
    let head =
        "Guild: Harbour\nChannel: Text / general\nTopic: Boats: all\nAfter: 5/1/2024 9:00 AM\n";
    let body = "[5/12/2024 10:32 AM] note\nhello: you\n\nsecond line\n\n{Attachments}\n\
        https://cdn.example/1/2/plan.pdf?ex=1&is=2\nfiles\\map.png\n\n{Stickers}\n\
        https://cdn.example/stickers/7.png\n\n{Reactions}\n👍 (2) wave\n\n\
        [5/13/2024 11:00 PM] 3 geese#1234 (pinned)\nsee https://boats.example\n\n{Embed}\n\
        https://boats.example\nBoats\n\n\n[5/13/2024 11:01 PM] note\nPinned a message.\n\n\n\
        [5/13/2024 11:02 PM] Tide bot\n\n\n{Embed}\nHigh tide\nat noon\n\n\n\
        [5/13/2024 11:03 PM] note\nthe log:\n[5/13/2024 9:00 PM] boiler on\n\n\n";
    let text = format!("{rule}\n{head}{rule}\n\n{body}{rule}\nExported 5 message(s)\n{rule}\n");
    let expected = [
        "2024-05-12T10:32:00Z note: hello: you//second line",
        "2024-05-13T23:00:00Z 3 geese#1234: see https://boats.example",
        "2024-05-13T23:02:00Z Tide bot: High tide/at noon",
        "2024-05-13T23:03:00Z note: the log:/[5/13/2024 9:00 PM] boiler on",
        "4 leading line",
        "1 link preview",
        "2 reaction",
        "1 unnamed notice",
    ];
    let older = text.replace("5/12/2024", "12-May-24");
    let older = older.replace("5/13/2024 11", "13-May-24 11");
    for text in [&text, &text.replace('\n', "\r\n"), &older] {
        let mut said = dated(text);
        // Behind the text are its files.
        let files = said[0].split_off(expected[0].len());
        assert_eq!(said, expected, "{text}");
        let names = ["plan.pdf", "map.png", "7.png"];
        assert!(names.iter().all(|name| files.contains(name)), "{files}");
    }
}
