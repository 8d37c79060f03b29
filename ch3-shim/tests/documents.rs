//! The documents agree with the code: settings, and the lengths that keep them readable.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use ch3_shim::Config;

/// The tables of settings as they ought to be.
fn settings() -> String {
    let mut text = String::new();
    let mut last = "";
    for e in Config::default().entries() {
        let heading = e.title;
        if heading != last {
            write!(text, "\n## {heading}\n\n| variable | default | meaning |\n|---|---|---|\n").unwrap();
            last = heading;
        }
        let default = if e.default.is_empty() { String::new() } else { format!("`{}` ", e.default) };
        writeln!(text, "| `{}` | {default}| {} |", e.name, e.meaning).unwrap();
    }
    text
}

#[test]
fn the_tables_of_settings_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
    let page = std::fs::read_to_string(path).unwrap();
    let head = &page[..page.find("\n## ").expect("a heading")];
    let right = format!("{head}{}", settings());
    if std::env::var_os("NETMOD_TEST_WRITE").is_some() {
        std::fs::write(path, right).unwrap();
    } else {
        assert_eq!(
            page, right,
            "docs/settings.md differs from the tables; its first lines say how it is written anew"
        );
    }
}

#[test]
fn readme_and_architecture_stay_short() {
    for (page, most) in
        [(include_str!("../../README.md"), 1200), (include_str!("../../ARCHITECTURE.md"), 3000)]
    {
        let words = page.split_whitespace().count();
        assert!(
            words <= most,
            "{} has {words} words, and at most {most} are allowed",
            page.lines().next().unwrap()
        );
    }
}

#[test]
fn the_launcher_settings_are_those_of_the_process_manager() {
    use netmod_pmi::{Choice, Settings};
    let mut config = Config::default();
    let settings = Settings::parse(config.pmi, &config.pmix_library).unwrap();
    assert_eq!(settings, Settings::default());
    for word in Choice::WORDS {
        config.set("NETMOD_PMI", word).unwrap();
        assert_eq!(Settings::parse(config.pmi, "").unwrap().choice, word.parse().unwrap());
    }
    assert!(config.set("NETMOD_PMI", "3").is_err());
}

/// Files of the product below a folder that allow unsafe code, as paths from `root`.
fn allowing(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // Folders of tests, of build output, and of the declarations of foreign functions.
        let skipped = ["target", "testing", "tests", "libfabric-sys", "libibverbs-sys", "examples"];
        if path.is_dir() {
            if !name.starts_with('.') && !skipped.contains(&name) {
                allowing(root, &path, found);
            }
        } else if name.ends_with(".rs") && !name.contains("tests") && !name.contains("model") {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.lines().any(|l| l == "#![allow(unsafe_code)]") {
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
}

#[test]
fn unsafe_code_is_where_the_list_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    allowing(root, root, &mut found);
    let listed: BTreeSet<String> = include_str!("../../docs/unsafe.md")
        .lines()
        .filter_map(|l| l.strip_prefix("| `")?.split_once('`'))
        .map(|(file, _)| file.to_owned())
        .collect();
    assert_eq!(found, listed, "docs/unsafe.md lists the files that allow unsafe code");
}
