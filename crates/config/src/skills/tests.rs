//! What is a skill, and what of its folder is read.

use super::*;

fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, [PathBuf; 2]) {
    let place = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let places = ["skills", "others"].map(|name| place.path().join(name));
    (place, places)
}

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n\nDo it in three steps.\n")
}

fn read_all(places: &[PathBuf]) -> (Skills, Vec<String>) {
    let mut found = Diagnostics::default();
    let skills = Skills::read(places, Path::new("/"), &mut found);
    (skills, found.iter().map(ToString::to_string).collect())
}

/// The same for places with one fault.
fn read_wrong(places: &[PathBuf]) -> (Skills, String) {
    let (skills, mut wrong) = read_all(places);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    (skills, wrong.remove(0))
}

fn descriptions(skills: &Skills) -> Vec<&str> {
    skills.iter().map(|skill| &*skill.description).collect()
}

fn make_pipe(at: PathBuf) {
    let made = std::process::Command::new("mkfifo").arg(at).status();
    assert!(made.unwrap().success());
}

#[test]
fn the_first_of_a_name_counts_and_the_list_is_sorted() {
    let (_place, places) = place(&[
        ("skills/b-two/SKILL.md", &skill("b-two", "Of the project.")),
        ("skills/a1/SKILL.md", &skill("a1", "\"Of: others.\"")),
        ("others/a1/SKILL.md", &skill("a1", "\"Of: others.\"")),
        ("others/b-two/SKILL.md", &skill("b-two", "Hidden.")),
        ("others/c/SKILL.md", &skill("c", ">\n  Of the\n  person.")),
        ("skills/notes/README.md", "no skill"),
    ]);
    // The copy of `a1` is no fault.
    let (skills, wrong) = read_wrong(&places);
    let words = [
        "others/b-two/SKILL.md: warning",
        "skills/b-two/SKILL.md has the same name",
    ];
    for word in words {
        assert!(wrong.contains(word), "{wrong}");
    }
    let list = skills.catalogue(&[], 10_000);
    let (_, list) = list.split_once("runs them.\n\n").unwrap();
    assert_eq!(
        list,
        "- a1: Of: others.\n- b-two: Of the project.\n- c: Of the person."
    );
    let whole = skills.catalogue(&[], 10_000).len() as u64;
    let less = skills.catalogue(&[], whole - 1);
    assert!(
        less.ends_with("- b-two: Of the project.\n[1 more are not listed]"),
        "{less}"
    );
    assert_eq!(skills.catalogue(&[], 0), "");
    assert_eq!(Skills::default().catalogue(&[], 10_000), "");
}

#[test]
fn a_wrong_skill_is_left_out_with_a_reason() {
    let long = skill("long", &"word ".repeat(300));
    let huge = skill("huge", &"x".repeat(2_000_000));
    let table: [(&str, &str, &str); 9] = [
        ("Upper", &skill("Upper", "D."), "lowercase letters"),
        ("a--b", &skill("a--b", "D."), "single `-` between them"),
        ("other", &skill("name", "D."), "is not that of its folder"),
        ("none", "---\nname: none\n---\nText", "no `description`"),
        ("unnamed", "---\ndescription: D.\n---\nText", "no `name`"),
        (
            "2026",
            "---\nname: 2026\ndescription: D.\n---\n",
            "`name` is not a text: put it in quotes",
        ),
        ("plain", "Only text.", "front matter"),
        ("long", &long, "its description has 1499 characters"),
        ("huge", &huge, "longer than 1048576 bytes"),
    ];
    for (folder, text, reason) in table {
        let (_place, places) = place(&[(&format!("skills/{folder}/SKILL.md"), text)]);
        let (skills, wrong) = read_wrong(&places);
        assert!(skills.is_empty(), "{folder}");
        assert!(wrong.contains(reason), "{folder}: {wrong}");
    }
}

#[test]
fn a_name_has_letters_of_any_language() {
    let of_64 = "ä".repeat(NAME_CHARS);
    for name in ["pdf-2", "prüfung", "проверка-3", "技能", "a", &of_64] {
        assert!(is_name(name), "{name}");
    }
    let of_65 = "ä".repeat(NAME_CHARS + 1);
    for name in rows! {
        "", "-", "-a", "a-", "a--b", "a b", "a_b", "a/b", "a.b", "Ärger", "ǆ-ǅ", "ПРОВЕРКА",
        "a\u{301}", &of_65,
    } {
        assert!(!is_name(name), "{name}");
    }
}

#[test]
fn front_matter_that_is_not_yaml_is_read_line_by_line() {
    let text = "---\r\nname: colon\r\ndescription: Use this when: the user asks\r\n  for PDFs\r\n\
                metadata:\r\n  a: b\r\n---\r\nDo it: now.\r\n";
    let (_place, places) = place(&[("skills/colon/SKILL.md", text)]);
    let (skills, wrong) = read_wrong(&places);
    let expected = ["Use this when: the user asks for PDFs"];
    assert_eq!(descriptions(&skills), expected);
    assert_eq!(skills.instructions("colon").unwrap(), "Do it: now.");
    assert!(
        wrong.contains("is not YAML") && wrong.contains("line by line"),
        "{wrong}"
    );
}

#[test]
fn a_mark_line_ends_and_keys_of_other_programs_change_nothing() {
    let text = "\u{feff}---\r\nname: pdf\r\ndescription: Forms.\r\nlicense: MIT\r\n\
                allowed-tools: Bash(git:*) Read\r\nmetadata:\r\n  version: \"1\"\r\n\
                unknown: [1, 2]\r\n---\r\n\r\nDo it.\r\n";
    let (_place, places) = place(&[("skills/pdf/SKILL.md", text)]);
    let (skills, wrong) = read_all(&places);
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(descriptions(&skills), ["Forms."]);
    assert_eq!(skills.instructions("pdf").unwrap(), "Do it.");
}

#[test]
fn a_skill_is_in_its_folder_and_no_pipe() {
    let (place, places) = place(&[
        ("elsewhere/SKILL.md", &skill("linked", "D.")),
        ("skills/linked/notes.md", "x"),
        ("skills/whole/SKILL.md", &skill("whole", "D.")),
    ]);
    let at = |name: &str| place.path().join(name);
    std::os::unix::fs::symlink(at("elsewhere/SKILL.md"), at("skills/linked/SKILL.md")).unwrap();
    make_pipe(at("skills/whole/pipe"));
    let (skills, wrong) = read_all(&places);
    assert_eq!(skills.names().collect::<Vec<_>>(), ["whole"]);
    assert!(wrong[0].contains("leads out of the folder"), "{wrong:?}");
    let refused = skills.file("whole", "pipe").unwrap_err();
    assert!(refused.contains("is not a file"), "{refused}");
}

#[test]
fn a_skill_whose_main_file_is_none_is_left_out_with_a_reason() {
    let (place, places) = place(&[
        ("skills/directory/SKILL.md/notes.md", "x"),
        ("skills/link/notes.md", "x"),
        ("skills/loop/notes.md", "x"),
        ("skills/pipe/notes.md", "x"),
        ("skills/whole/SKILL.md", &skill("whole", "D.")),
        ("skills/none/notes.md", "no skill"),
        ("skills/notes.md", "no skill"),
    ]);
    let main_file = |name: &str| place.path().join("skills").join(name).join(FILE);
    let link = std::os::unix::fs::symlink::<&str, PathBuf>;
    link("nowhere.md", main_file("link")).unwrap();
    link(FILE, main_file("loop")).unwrap();
    make_pipe(main_file("pipe"));
    let (skills, wrong) = read_all(&places);
    assert_eq!(skills.names().collect::<Vec<_>>(), ["whole"]);
    let expected = [
        ("directory", "its file is not a file"),
        ("link", "its file is a link that leads to no file"),
        ("loop", "its file is a link that leads to no file"),
        ("pipe", "its file is not a file"),
    ];
    assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
    for (wrong, (name, reason)) in wrong.iter().zip(expected) {
        let is_named = wrong.contains(&format!("{name}/{FILE}"));
        assert!(is_named && wrong.contains(reason), "{wrong}");
    }
    let there = main_files(&places).filter(|file| file.exists());
    assert_eq!(there.count(), 3, "directory, pipe and whole");
}

#[test]
fn a_skill_beyond_those_that_are_read_is_named() {
    let name = |at| format!("s{at:03}");
    let path = |at| format!("skills/{}/SKILL.md", name(at));
    let files = (0..=MAX_SKILLS).map(|at| (path(at), skill(&name(at), "D.")));
    let files: Vec<(String, String)> = files.collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let (_place, places) = place(&files);
    let (skills, wrong) = read_wrong(&places);
    assert_eq!(skills.iter().len(), MAX_SKILLS);
    assert!(
        wrong.contains("s256") && wrong.contains("256 are read"),
        "{wrong}"
    );
}

#[test]
fn a_skill_is_read_with_its_files_and_nothing_outside() {
    let (place, places) = place(&[
        ("skills/pdf/SKILL.md", &skill("pdf", "Forms.")),
        ("skills/pdf/references/fields.md", "All fields."),
        ("skills/pdf/.hidden", "not listed"),
        ("skills/secret.txt", "outside"),
        ("secret.txt", "outside"),
    ]);
    fs::write(place.path().join("skills/pdf/blob"), [0xff, 0xfe]).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(
        place.path().join("secret.txt"),
        place.path().join("skills/pdf/link.txt"),
    )
    .unwrap();
    let (skills, _) = read_all(&places);
    assert_eq!(
        skills.instructions("pdf").unwrap(),
        "Do it in three steps.\n\nFiles of this skill:\nblob\nreferences/fields.md"
    );
    for path in ["references/fields.md", "./references/./fields.md"] {
        assert_eq!(skills.file("pdf", path).unwrap(), "All fields.", "{path}");
    }
    for (path, reason) in [
        ("./../secret.txt", "is not in the folder"),
        (".", "is not a file"),
        ("../secret.txt", "is not in the folder"),
        ("references/../../secret.txt", "is not in the folder"),
        ("/etc/passwd", "is not in the folder"),
        ("link.txt", "is not in the folder"),
        ("", "is not in the folder"),
        ("none.md", "has no file"),
        ("references", "is not a file"),
        ("blob", "is not a text"),
    ] {
        let wrong = skills.file("pdf", path).unwrap_err();
        assert!(wrong.contains(reason), "{path}: {wrong}");
    }
    let unknown = skills.instructions("xls").unwrap_err();
    assert_eq!(unknown, "skill \"xls\" does not exist; available are pdf");
}

#[test]
fn skills_of_servers_follow_those_of_folders_within_the_same_bound() {
    let (_place, places) = place(&[("skills/a1/SKILL.md", &skill("a1", "SessionOverrides."))]);
    let (skills, _) = read_all(&places);
    let lines = [
        "\n- docs/b: Far.".to_owned(),
        "\n- docs/c: Farther.".to_owned(),
    ];
    let list = skills.catalogue(&lines, 10_000);
    let own = list.find("- a1: SessionOverrides.").unwrap();
    let head = list.find("These are of tool servers").unwrap();
    assert!(
        own < head && list.ends_with("\n\n- docs/b: Far.\n- docs/c: Farther."),
        "{list}"
    );
    let bounded = skills.catalogue(&lines, list.len() as u64 - 1);
    assert!(
        bounded.ends_with("- docs/b: Far.\n[1 more are not listed]"),
        "{bounded}"
    );
    let alone = Skills::default().catalogue(&lines, 10_000);
    assert!(alone.starts_with("# Skills") && alone.contains("These are of tool servers"));
}

#[test]
fn the_front_matter_of_a_server_is_compared_field_by_field() {
    let text =
        "---\nname: b\ndescription: Far.\nversion: 2\nmetadata:\n  tags: [x, y]\n---\nDo it.\n";
    let listed = serde_json::json!({"name": "b", "description": "Far.", "version": 2,
        "metadata": {"tags": ["x", "y"]}});
    assert_eq!(body_of(text, &listed).unwrap(), "Do it.");
    for (key, value) in [
        ("description", serde_json::json!("Near.")),
        ("version", serde_json::json!("2")),
        ("metadata", serde_json::json!({"tags": ["x"]})),
        ("license", serde_json::json!("MIT")),
    ] {
        let mut other = listed.clone();
        other[key] = value;
        assert!(
            body_of(text, &other).unwrap_err().contains("front matter"),
            "{key}"
        );
    }
    assert!(body_of("no front matter", &listed).is_err());
}
