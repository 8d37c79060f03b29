//! Control variables: the settings of a process.
//!
//! Before MPI is initialized they have the values of the environment, and what is written holds
//! from the start of MPI on. Afterwards they tell the values in force, and most cannot be changed.

use std::sync::Arc;

use ch3_shim::Config;
use netmod_core::config::{Entry, Kind};

use super::{Answer, Running, Tool, Value, Verbosity, enums, index_of};
use crate::error::{Class, MpiError, Result};

/// Characters of a variable that is text, its end included.
pub const TEXT: usize = 4096;

/// Processes that must agree about a variable (`MPI_T_SCOPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// It may differ.
    Local = 60440,
    /// The processes of a node have the same value.
    GroupEqual = 60442,
    /// All processes have the same value.
    AllEqual = 60444,
}

/// A control variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Its name, that of the variable in the environment.
    pub name: &'static str,
    /// Its meaning, in one line.
    pub meaning: &'static str,
    /// Heading of its table in the documentation of the settings.
    pub title: &'static str,
    /// Its audience.
    pub verbosity: Verbosity,
    /// Index of its enumeration.
    pub enumeration: Option<usize>,
    /// Processes that must agree about it.
    pub scope: Scope,
    /// Its default.
    pub default: Value,
    kind: Kind,
}

impl Control {
    /// Returns the number of elements of its value.
    pub fn count(&self) -> usize {
        if matches!(self.default, Value::Text(_)) { TEXT } else { 1 }
    }
}

/// Settings that are read when they are used, so that they may change while MPI runs.
const AT_ANY_TIME: [&str; 3] = ["NETMOD_CLOSE_TIMEOUT", "NETMOD_MPI_LEAKS", "NETMOD_COLL_MEMORY"];
/// Settings of the device of which rank 0's value applies, or that decide on an algorithm of all.
const OF_ALL: [&str; 4] =
    ["NETMOD_EAGER_WINDOW", "NETMOD_RTS_MAX", "NETMOD_UNEXPECTED_MAX", "NETMOD_COLL_MEMORY"];
/// Settings that everybody may need.
const OF_USERS: [&str; 5] = ["NETMOD", "NETMOD_LOG", "NETMOD_MPI_LEAKS", "NETMOD_PMI", "NETMOD_STATUS"];
/// Settings for the library's own developers.
const OF_DEVELOPERS: [&str; 5] = [
    "NETMOD_FAULTS",
    "NETMOD_CAPTURE",
    "NETMOD_CAPTURE_SNAP",
    "NETMOD_SHM_RANKS",
    "NETMOD_TCP_RAILS_LOOPBACK",
];
/// Settings that concern the speed of each program.
const OF_TUNERS: [&str; 6] = [
    "NETMOD_EAGER_MAX",
    "NETMOD_LMT",
    "NETMOD_LMT_MIN",
    "NETMOD_SPIN",
    "NETMOD_PROGRESS",
    "NETMOD_TCP_INTERFACE",
];

fn is_collective(e: &Entry) -> bool {
    e.name.starts_with("NETMOD_COLL_")
}

fn scope(e: &Entry) -> Scope {
    if OF_ALL.contains(&e.name) || is_collective(e) {
        Scope::AllEqual
    } else if e.name.starts_with("NETMOD_SHM_") {
        Scope::GroupEqual
    } else {
        Scope::Local
    }
}

fn verbosity(e: &Entry) -> Verbosity {
    match e.name {
        name if OF_USERS.contains(&name) => Verbosity::UserBasic,
        name if OF_DEVELOPERS.contains(&name) => Verbosity::DeveloperBasic,
        name if OF_TUNERS.contains(&name) || is_collective(e) => Verbosity::TunerBasic,
        _ => Verbosity::TunerDetail,
    }
}

/// Returns the control variables in the order of the documentation.
pub(super) fn list(config: &Config) -> Vec<Control> {
    let control = |e: Entry| Control {
        name: e.name,
        meaning: e.meaning,
        title: e.title,
        verbosity: verbosity(&e),
        enumeration: match e.kind {
            Kind::Bool => Some(enums::SWITCHES),
            _ => enums::of_setting(config, e.name),
        },
        scope: scope(&e),
        default: value(e.kind, &e.default),
        kind: e.kind,
    };
    config.entries().map(control).collect()
}

/// Returns the number of a text such as `128K`, as settings show it.
fn bytes(text: &str) -> Option<i64> {
    let unit = |unit| "KMG".find(unit).map(|at| 10 * (at as u32 + 1));
    let (digits, shift) = match text.chars().last().and_then(unit) {
        Some(shift) => (&text[..text.len() - 1], shift),
        None => (text, 0),
    };
    digits.parse::<i64>().ok().map(|n| n << shift)
}

/// Returns the seconds of a text such as `30s` or `5ms`, as settings show it.
fn seconds(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let n: f64 = text[..end].parse().ok()?;
    Some(match &text[end..] {
        "us" => n / 1e6,
        "ms" => n / 1e3,
        _ => n,
    })
}

/// Returns the value of a setting for C. Each text that a setting shows has one.
fn value(kind: Kind, text: &str) -> Value {
    let item = |words: &[&str]| words.iter().position(|word| *word == text).map(|at| Value::Int(at as i32));
    let value = match kind {
        Kind::Count { .. } | Kind::Size { .. } => bytes(text).map(Value::Count),
        Kind::Duration { .. } => seconds(text).map(Value::Real),
        Kind::Bool => item(&enums::SWITCH),
        Kind::Choice(words) => item(words),
        _ => None,
    };
    value.unwrap_or_else(|| Value::Text(text.into()))
}

/// Returns the text of a value that a tool writes; `None` if it has not the type of the variable.
fn text(kind: Kind, value: &Value) -> Option<String> {
    let item = |words: &[&'static str], at: i32| {
        usize::try_from(at).ok().and_then(|at| words.get(at)).map(|word| (*word).to_owned())
    };
    match (kind, value) {
        (Kind::Count { .. } | Kind::Size { .. }, Value::Count(n)) => Some(n.to_string()),
        (Kind::Duration { .. }, Value::Real(s)) => Some(format!("{}us", (s * 1e6).round())),
        (Kind::Bool, Value::Int(at)) => item(&enums::SWITCH, *at),
        (Kind::Choice(words), Value::Int(at)) => item(words, *at),
        (_, Value::Text(text)) => Some(text.clone()),
        _ => None,
    }
}

/// The settings before MPI is initialized.
#[derive(Debug, Default)]
pub(super) struct Controls {
    /// Those of the environment and what tools have written, once they were asked for.
    config: Option<Config>,
    written: Vec<(String, String)>,
}

impl Controls {
    fn config(&mut self) -> &mut Config {
        // A bad value in the environment is an error of MPI_Init, which says what is accepted.
        self.config.get_or_insert_with(|| Config::from_env().unwrap_or_default())
    }

    fn set(&mut self, name: &str, text: &str) -> Answer<()> {
        self.config().set(name, text).map_err(|_| Class::T_INVALID)?;
        self.written.push((name.to_owned(), text.to_owned()));
        Ok(())
    }

    pub(super) fn take_written(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.written)
    }
}

impl Tool {
    /// Returns a control variable.
    ///
    /// # Errors
    /// A bad index.
    pub fn control(&self, index: usize) -> Answer<&Control> {
        self.lists()?.controls.get(index).ok_or(Class::T_INVALID_INDEX)
    }

    /// Returns the index of the control variable of a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn control_index(&self, name: &str) -> Answer<usize> {
        index_of(self.lists()?.controls.iter().map(|c| c.name), name)
    }

    /// Allocates a handle of a control variable.
    ///
    /// # Errors
    /// A bad index.
    pub fn control_alloc(&self, index: usize) -> Answer<(usize, usize)> {
        let count = self.control(index)?.count();
        let mut state = self.used()?;
        let handle = state.handles.next();
        state.control_handles.insert(handle, index);
        Ok((handle, count))
    }

    /// Frees a handle of a control variable.
    ///
    /// # Errors
    /// A bad handle.
    pub fn control_free(&self, handle: usize) -> Answer<()> {
        self.used()?.control_handles.remove(&handle).map(|_| ()).ok_or(Class::T_INVALID_HANDLE)
    }

    /// Returns the control variable of a handle.
    ///
    /// # Errors
    /// A bad handle.
    pub fn control_of(&self, handle: usize) -> Answer<&Control> {
        let index = self.used()?.control_handles.get(&handle).copied();
        self.control(index.ok_or(Class::T_INVALID_HANDLE)?)
    }

    /// Returns the value of a control variable: that in force, or before MPI is initialized the one
    /// that it will start with.
    ///
    /// # Errors
    /// A bad handle.
    pub fn control_read(&self, running: Option<&dyn Running>, handle: usize) -> Answer<Value> {
        let control = self.control_of(handle)?;
        let found = match running {
            Some(running) => running.setting(control.name),
            None => self.used()?.controls.config().entries().find(|e| e.name == control.name),
        };
        Ok(found.map_or_else(|| control.default.clone(), |e| value(e.kind, &e.value)))
    }

    /// Sets a control variable.
    ///
    /// # Errors
    /// A bad handle; a value that is not accepted; a variable that is read when MPI starts, after
    /// that.
    pub fn control_write(&self, running: Option<&dyn Running>, handle: usize, value: &Value) -> Answer<()> {
        let control = self.control_of(handle)?;
        let text = text(control.kind, value).ok_or(Class::T_INVALID)?;
        let Some(running) = running else {
            return self.used()?.controls.set(control.name, &text);
        };
        if !AT_ANY_TIME.contains(&control.name) {
            return Err(Class::T_CVAR_SET_NOT_NOW);
        }
        running.change_setting(control.name, &text).map_err(|_| Class::T_INVALID)
    }
}

/// Applies what tools have written to the configuration that MPI starts with.
///
/// # Errors
/// A value that contradicts one of the environment.
pub(crate) fn apply(tool: &Arc<Tool>, config: &mut Config) -> Result<()> {
    for (name, text) in tool.written() {
        config.set(&name, &text).map_err(|e| MpiError::new(Class::OTHER, e.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The default of each setting survives the way to C and back.
    #[test]
    fn each_setting_has_a_value_that_it_accepts() {
        let mut config = Config::default();
        let entries: Vec<Entry> = config.entries().collect();
        assert!(entries.len() > 50);
        for e in entries {
            let there = value(e.kind, &e.value);
            let back = text(e.kind, &there).expect("its own type");
            if !(e.value.is_empty() && e.name != "NETMOD_LOG") {
                config.set(e.name, &back).unwrap_or_else(|why| panic!("{}={back}: {why}", e.name));
            }
            let shown = config.entries().find(|now| now.name == e.name).map(|now| now.value);
            assert_eq!(shown, Some(e.value), "{}", e.name);
        }
    }

    #[test]
    fn sizes_and_times_are_numbers() {
        assert_eq!((bytes("128K"), bytes("7"), bytes("16G")), (Some(128 << 10), Some(7), Some(16 << 30)));
        assert_eq!((bytes("auto"), bytes("")), (None, None));
        assert_eq!((seconds("30s"), seconds("5ms"), seconds("0s")), (Some(30.0), Some(0.005), Some(0.0)));
        let time = Kind::Duration { min: std::time::Duration::ZERO, max: std::time::Duration::MAX };
        assert_eq!(text(time, &Value::Real(0.25)).as_deref(), Some("250000us"));
        assert_eq!(text(time, &Value::Count(1)), None);
        assert_eq!(text(Kind::Bool, &Value::Int(2)), None);
        assert_eq!(text(Kind::Choice(&["a", "b"]), &Value::Int(-1)), None);
    }
}
