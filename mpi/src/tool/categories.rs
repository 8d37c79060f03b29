//! Categories: groups of variables and events.

use super::controls::Control;
use super::events::KINDS;
use super::figures::{Figure, NETMODS};
use super::indices;

/// A category; its members are indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Category {
    /// Its name.
    pub name: String,
    /// Its meaning.
    pub meaning: String,
    /// Its control variables.
    pub controls: Vec<usize>,
    /// Its performance variables.
    pub figures: Vec<usize>,
    /// Its kinds of events.
    pub events: Vec<usize>,
    /// Categories in it.
    pub categories: Vec<usize>,
}

/// Name of the category that has all others.
const ALL: &str = "netmod";

/// Returns the name of the category of a table of settings.
fn of_table(title: &str) -> String {
    let known = [
        ("Shared memory", NETMODS[0]),
        ("TCP", NETMODS[1]),
        ("libfabric", NETMODS[2]),
        ("verbs", NETMODS[3]),
    ];
    match known.iter().find(|(table, _)| *table == title) {
        Some((_, netmod)) => (*netmod).to_owned(),
        None => title.trim_start_matches("The ").to_lowercase(),
    }
}

/// Returns all categories: first the one that has all others, then those of the settings' tables
/// and of the figures.
pub(super) fn list(controls: &[Control], figures: &[Figure]) -> Vec<Category> {
    let of_controls = controls.iter().map(|c| (of_table(c.title), format!("settings: {}", c.title)));
    let of_figures = figures.iter().map(|f| (f.category.to_owned(), format!("figures: {}", f.category)));
    let mut all = vec![Category { name: ALL.into(), meaning: "everything".into(), ..Category::default() }];
    for (name, meaning) in of_controls.chain(of_figures) {
        if !all.iter().any(|category| category.name == name) {
            all.push(Category { name, meaning, ..Category::default() });
        }
    }
    for category in &mut all {
        let controls = controls.iter().enumerate().filter(|(_, c)| of_table(c.title) == category.name);
        let figures = figures.iter().enumerate().filter(|(_, f)| f.category == category.name);
        category.controls = controls.map(|(at, _)| at).collect();
        category.figures = figures.map(|(at, _)| at).collect();
        if category.name == "connections" {
            category.events = (0..KINDS.len()).collect();
        }
    }
    let rest = indices(1..all.len());
    all[0].categories = rest;
    all
}
