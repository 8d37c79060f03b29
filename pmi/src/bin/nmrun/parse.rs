//! The command line: words in, a job to start out.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netmod_pmi::launch::{Binding, MAX_RANKS};

use super::error::{ArgumentError, Place, ValueError};
use super::options::{self, Flag, Form, Value};
use super::{hosts, words};

/// The request of a command line.
#[derive(Debug)]
pub(crate) enum Asked {
    Help,
    Manual,
    Completions,
    Version,
    Job(Request),
}

/// A job to start.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) programs: Vec<Program>,
    /// Variables of all ranks, in their order.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) label: bool,
    pub(crate) no_kill: bool,
    pub(crate) pmi_port: bool,
    pub(crate) verbose: bool,
    pub(crate) exit_codes: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) nodes: Option<u32>,
    pub(crate) universe: Option<u32>,
    pub(crate) binding: Binding,
    per_host: Option<u32>,
    directory: Option<PathBuf>,
}

/// One program of a job.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) ranks: u32,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) command: Vec<OsString>,
}

/// Parses a command line, without the launcher's own name.
///
/// # Errors
///
/// Returns the first fault in it.
pub(crate) fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Asked, ArgumentError> {
    let line: Vec<OsString> = line.into_iter().collect();
    let parts: Vec<&[OsString]> = line.split(|word| word == ":").collect();
    let several = parts.len() > 1;
    let mut request = Request::default();
    for (number, part) in (1..).zip(parts) {
        let place = if several { Place::Part(number) } else { Place::Line };
        if let Some(asked) = request.part(part, place)? {
            return Ok(asked);
        }
    }
    // Without a number of ranks, the number on each host counts: there is one host.
    for program in request.programs.iter_mut().filter(|program| program.ranks == 0) {
        program.ranks = request.per_host.unwrap_or(1);
    }
    Ok(Asked::Job(request))
}

/// An option as it was written.
struct Written {
    /// With its dashes, for messages.
    shown: String,
    /// The value behind `=`.
    attached: Option<OsString>,
}

impl Written {
    fn value(
        &mut self,
        rest: &mut VecDeque<OsString>,
        wanted: &'static str,
    ) -> Result<OsString, ArgumentError> {
        let next = self.attached.take().or_else(|| rest.pop_front());
        next.ok_or_else(|| ArgumentError::NoValue { option: self.shown.clone(), wanted })
    }

    fn wrong(&self, value: &OsStr, why: impl Into<ValueError>) -> ArgumentError {
        let value = value.to_string_lossy().into_owned();
        ArgumentError::Value { option: self.shown.clone(), value, why: why.into() }
    }
}

impl Request {
    /// Parses the options of one program, and the program.
    fn part(&mut self, part: &[OsString], place: Place) -> Result<Option<Asked>, ArgumentError> {
        let mut rest: VecDeque<OsString> = part.iter().cloned().collect();
        let mut program = Program::default();
        while let Some(word) = rest.pop_front() {
            let Some(name) = dashed(&word) else {
                rest.push_front(word);
                break;
            };
            if name.is_empty() {
                // "--" ends the options.
                break;
            }
            if name == "configfile" {
                return self.config(program, rest);
            }
            if let Some(asked) = self.option(&word, &mut program, &mut rest)? {
                return Ok(Some(asked));
            }
        }
        if rest.is_empty() {
            return Err(ArgumentError::NoProgram { place });
        }
        program.command = rest.into();
        self.push(program);
        Ok(None)
    }

    fn push(&mut self, mut program: Program) {
        match &program.directory {
            Some(directory) => self.directory = Some(directory.clone()),
            None => program.directory.clone_from(&self.directory),
        }
        self.programs.push(program);
    }

    /// Parses the file of `-configfile`. Options of one program before it are those of its first.
    fn config(
        &mut self,
        first: Program,
        mut rest: VecDeque<OsString>,
    ) -> Result<Option<Asked>, ArgumentError> {
        let mut option = Written { shown: "-configfile".to_owned(), attached: None };
        let path = option.value(&mut rest, "the name of a file")?;
        if let Some(word) = rest.pop_front() {
            return Err(ArgumentError::AfterFile { word: word.to_string_lossy().into_owned() });
        }
        let text = read(&path).map_err(|why| option.wrong(&path, why))?;
        let lines = words::of_file(&text).map_err(|why| option.wrong(&path, why))?;
        let begun = self.programs.len();
        for line in lines {
            let line: Vec<OsString> = line.into_iter().map(OsString::from).collect();
            for part in line.split(|word| word == ":").filter(|part| !part.is_empty()) {
                if let Some(asked) = self.part(part, Place::File)? {
                    return Ok(Some(asked));
                }
            }
        }
        let Some(program) = self.programs.get_mut(begun) else {
            return Err(ArgumentError::NoProgram { place: Place::File });
        };
        if program.ranks == 0 {
            program.ranks = first.ranks;
        }
        let own = std::mem::replace(&mut program.env, first.env);
        program.env.extend(own);
        if first.directory.is_some() {
            for program in self.programs[begun..].iter_mut().filter(|p| p.directory.is_none()) {
                program.directory.clone_from(&first.directory);
            }
        }
        Ok(None)
    }

    /// Handles one option and its value.
    fn option(
        &mut self,
        word: &OsStr,
        program: &mut Program,
        rest: &mut VecDeque<OsString>,
    ) -> Result<Option<Asked>, ArgumentError> {
        let (name, attached) = divided(word);
        let bare = name.trim_start_matches('-');
        let mut written = Written { shown: name.clone(), attached };
        let Some(row) = options::find(bare) else {
            return Err(ArgumentError::Unknown { option: name.clone(), nearest: options::nearest(bare) });
        };
        match row.form {
            Form::Refused => Err(ArgumentError::Refused { option: name, instead: row.help }),
            Form::Flag(_) if written.attached.is_some() => Err(ArgumentError::NeedlessValue { option: name }),
            Form::Flag(flag) => Ok(self.flag(flag)),
            Form::Variable { all } => {
                let (name, value) = variable(&mut written, rest)?;
                if all { &mut self.env } else { &mut program.env }.push((name, value));
                Ok(None)
            }
            Form::Value(wanted, kind) => {
                let value = written.value(rest, wanted)?;
                self.value(kind, &value, program, &written)?;
                Ok(None)
            }
        }
    }

    fn flag(&mut self, flag: Flag) -> Option<Asked> {
        match flag {
            Flag::Help => return Some(Asked::Help),
            Flag::Manual => return Some(Asked::Manual),
            Flag::Completions => return Some(Asked::Completions),
            Flag::Version => return Some(Asked::Version),
            Flag::Label => self.label = true,
            Flag::NoKill => self.no_kill = true,
            Flag::PmiPort => self.pmi_port = true,
            Flag::Verbose => self.verbose = true,
            Flag::ExitCodes => self.exit_codes = true,
            Flag::Already => {}
        }
        None
    }

    fn value(
        &mut self,
        kind: Value,
        value: &OsStr,
        program: &mut Program,
        written: &Written,
    ) -> Result<(), ArgumentError> {
        let wrong = |why: ValueError| written.wrong(value, why);
        match kind {
            Value::Ranks => program.ranks = count(value).map_err(wrong)?,
            Value::PerHost => self.per_host = Some(count(value).map_err(wrong)?),
            Value::Nodes => self.nodes = Some(count(value).map_err(wrong)?),
            Value::Universe => self.universe = Some(count(value).map_err(wrong)?),
            Value::Timeout => self.timeout = Some(seconds(value).map_err(wrong)?),
            Value::Directory => {
                let path = PathBuf::from(value);
                if !path.is_dir() {
                    return Err(wrong(ValueError::Folder(path)));
                }
                program.directory = Some(path);
            }
            Value::Export => self.env.extend(exported(value)),
            Value::Hosts => here(hosts::listed(text(value).map_err(wrong)?))?,
            Value::HostFile => here(hosts::in_file(&read(value).map_err(wrong)?))?,
            Value::BindTo => {
                self.binding = match value.to_str() {
                    Some("core") => Binding::Core,
                    Some("none") => Binding::None,
                    _ => return Err(wrong(ValueError::Binding)),
                }
            }
            // `part` has read it.
            Value::ConfigFile | Value::Passed => {}
        }
        Ok(())
    }
}

/// Returns the name of an option without its dashes, if the word is one.
fn dashed(word: &OsStr) -> Option<&str> {
    let name = word.to_str()?.strip_prefix('-')?;
    // A dash alone is a name of a file.
    (!name.is_empty()).then(|| name.strip_prefix('-').unwrap_or(name))
}

/// Returns an option's name with its dashes, and the value behind `=`.
fn divided(word: &OsStr) -> (String, Option<OsString>) {
    let word = word.to_string_lossy();
    match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.into())),
        None => (word.into_owned(), None),
    }
}

fn text(value: &OsStr) -> Result<&str, ValueError> {
    value.to_str().ok_or(ValueError::Text)
}

fn read(path: &OsStr) -> Result<String, ValueError> {
    Ok(std::fs::read_to_string(Path::new(path))?)
}

fn count(value: &OsStr) -> Result<u32, ValueError> {
    let count = text(value)?.parse()?;
    if (1..=MAX_RANKS).contains(&count) { Ok(count) } else { Err(ValueError::Range) }
}

/// Returns a time limit in seconds.
pub(crate) fn seconds(value: &OsStr) -> Result<Duration, ValueError> {
    let seconds: f64 = text(value)?.parse().map_err(|_| ValueError::NoSeconds)?;
    if seconds.is_nan() || seconds <= 0.0 {
        return Err(ValueError::NotPositive);
    }
    Ok(Duration::try_from_secs_f64(seconds)?)
}

/// Returns a variable: two words, or one with `=`.
fn variable(
    written: &mut Written,
    rest: &mut VecDeque<OsString>,
) -> Result<(OsString, OsString), ArgumentError> {
    const WANTED: &str = "NAME VALUE or NAME=VALUE";
    let word = written.value(rest, WANTED)?;
    let (name, value) = match halves(&word) {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (word.clone(), written.value(rest, WANTED)?),
    };
    if name.is_empty() {
        return Err(written.wrong(&word, ValueError::NoVariable));
    }
    Ok((name, value))
}

/// Returns both sides of the first `=`.
fn halves(word: &OsStr) -> Option<(&OsStr, &OsStr)> {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=')?;
    Some((OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..])))
}

/// Returns the variables of `-x NAME` or `-x NAME=VALUE`. All others are passed on anyway.
fn exported(word: &OsStr) -> Option<(OsString, OsString)> {
    let (name, value) = halves(word)?;
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

fn here<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), ArgumentError> {
    match names.find(|name| !hosts::is_here(name)) {
        Some(host) => Err(ArgumentError::Host { host: host.to_owned() }),
        None => Ok(()),
    }
}
