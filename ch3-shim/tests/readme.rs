//! The README's table of settings is that of the code.

use netmod_core::Config;

#[test]
fn the_table_of_settings_is_complete_and_true() {
    let readme = include_str!("../../README.md");
    let rows: Vec<&str> = readme.lines().filter(|l| l.starts_with("| `NETMOD")).collect();
    let config = Config::default();
    let entries: Vec<_> = config.entries().collect();
    assert_eq!(rows.len(), entries.len());
    for (row, e) in rows.iter().zip(&entries) {
        let default = if e.default.is_empty() { String::new() } else { format!("`{}` ", e.default) };
        assert_eq!(*row, format!("| `{}` | {}| {} |", e.name, default, e.meaning));
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
