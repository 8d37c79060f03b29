//! Programs that a job asks its launcher to start, and the words in which PMI-1 says so.
//!
//! A request is a list of lines: for each program `mcmd=spawn`, `nprocs=`, `execname=`,
//! `totspawns=`, `spawnssofar=` (from 1), `arg1=` and on, `argcnt=`, `preput_num=`,
//! `preput_key_0=`, `preput_val_0=` and on, `info_num=`, `info_key_0=`, `info_val_0=` and on,
//! `endcmd`. The values are stored for the new job before it starts.
//!
//! In PMI-2 it is one message: `ncmds=`, `preputcount=`, `ppkey0=`, `ppval0=` and on, then for each
//! program `subcmd=`, `maxprocs=`, `argc=`, `argv0=` and on, `infokeycount=`, `infokey0=`,
//! `infoval0=` and on. Slurm reads them by their order.

use std::fmt::Write as _;

/// Key of the port at which those who have asked for a job await it.
pub const PARENT_PORT: &str = "PARENT_ROOT_PORT_NAME";

/// Key of the exit code of a job that has ended, in its key-value space, for those who have asked
/// for it.
pub(crate) const ENDED: &str = "netmod_job_ended";

/// The variable that tells a process that another job has asked for its own.
pub(crate) const SPAWNED: &str = "PMI_SPAWNED";

/// Most lines of one program, and most bytes of them.
const MAX_LINES: usize = 1 << 16;
const MAX_BYTES: usize = 4 << 20;
/// Most bytes of a request in PMI-2, whose length has six digits.
const MAX_FRAME: usize = 999_999;
/// The keys of infos that launchers over PMI-2 know.
const KNOWN: [&str; 3] = ["host", "path", "wdir"];
/// Most programs of a request.
const MAX_PROGRAMS: usize = 4096;

/// A program to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpawnProgram {
    /// Path of the program, or its name.
    pub path: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Number of its processes.
    pub ranks: u32,
    /// Wishes, by key.
    pub info: Vec<(String, String)>,
}

/// Programs to start as one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The programs.
    pub programs: Vec<SpawnProgram>,
    /// Values of the new job's key-value space.
    pub values: Vec<(String, String)>,
}

/// The error in a request for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// A value has a character that ends a line.
    #[error("a program, argument or info has a line break, which cannot be passed on")]
    LineBreak,
    /// A value has the character that ends a word of PMI-2.
    #[error("a program, argument or info has a semicolon, which cannot be passed on over PMI-2")]
    Semicolon,
    /// A word is missing, or has no meaning.
    #[error("its line {0}= is missing or makes no sense")]
    Word(&'static str),
    /// It is too long.
    #[error("it has more than {MAX_LINES} lines or {MAX_BYTES} bytes")]
    TooLong,
}

impl Spawn {
    /// Returns the lines of the request in PMI-1.
    ///
    /// # Errors
    ///
    /// Fails if a text cannot be one line.
    pub fn emit(&self) -> Result<String, SpawnError> {
        let mut out = String::new();
        for (number, program) in self.programs.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ =
                writeln!(out, "mcmd=spawn\nnprocs={}\nexecname={}", program.ranks, one_line(&program.path)?);
            let _ = writeln!(out, "totspawns={}\nspawnssofar={}", self.programs.len(), number + 1);
            for (at, arg) in program.args.iter().enumerate() {
                let _ = writeln!(out, "arg{}={}", at + 1, one_line(arg)?);
            }
            let _ = writeln!(out, "argcnt={}", program.args.len());
            // All programs are told the values; the server stores those of the first.
            emit_pairs(&mut out, "preput", &self.values)?;
            emit_pairs(&mut out, "info", &program.info)?;
            out.push_str("endcmd\n");
        }
        Ok(out)
    }

    /// Returns the request in PMI-2, without its length.
    ///
    /// # Errors
    ///
    /// Fails if a text cannot be one word, or if it is too long.
    pub fn emit_frame(&self) -> Result<String, SpawnError> {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = write!(out, "cmd=spawn;ncmds={};preputcount={};", self.programs.len(), self.values.len());
        for (at, (key, value)) in self.values.iter().enumerate() {
            let _ = write!(out, "ppkey{at}={};ppval{at}={};", one_word(key)?, one_word(value)?);
        }
        for program in &self.programs {
            let _ = write!(out, "subcmd={};maxprocs={};", one_word(&program.path)?, program.ranks);
            let _ = write!(out, "argc={};", program.args.len());
            for (at, arg) in program.args.iter().enumerate() {
                let _ = write!(out, "argv{at}={};", one_word(arg)?);
            }
            let known = |(key, _): &&(String, String)| KNOWN.contains(&key.as_str());
            let _ = write!(out, "infokeycount={};", program.info.iter().filter(known).count());
            for (at, (key, value)) in program.info.iter().filter(known).enumerate() {
                let _ = write!(out, "infokey{at}={key};infoval{at}={};", one_word(value)?);
            }
        }
        if out.len() > MAX_FRAME { Err(SpawnError::TooLong) } else { Ok(out) }
    }
}

fn one_word(text: &str) -> Result<&str, SpawnError> {
    if text.contains(';') { Err(SpawnError::Semicolon) } else { one_line(text) }
}

fn one_line(text: &str) -> Result<&str, SpawnError> {
    if text.contains(['\n', '\r', '\0']) { Err(SpawnError::LineBreak) } else { Ok(text) }
}

fn emit_pairs(out: &mut String, sort: &str, pairs: &[(String, String)]) -> Result<(), SpawnError> {
    let _ = writeln!(out, "{sort}_num={}", pairs.len());
    for (at, (key, value)) in pairs.iter().enumerate() {
        let _ = writeln!(out, "{sort}_key_{at}={}\n{sort}_val_{at}={}", one_line(key)?, one_line(value)?);
    }
    Ok(())
}

/// The lines of a request that have come so far.
#[derive(Debug, Default)]
pub(crate) struct SpawnLines {
    /// The request is under way: the lines of its present program.
    lines: Option<Vec<(String, String)>>,
    bytes: usize,
    request: Spawn,
}

impl SpawnLines {
    /// Takes a line if it belongs to a request. Returns the request with its last line, `Err` if it
    /// makes no sense, and `None` for the line of another command.
    pub(crate) fn take(&mut self, line: &[u8]) -> Option<Result<Option<Spawn>, SpawnError>> {
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(lines) = &mut self.lines else {
            if text != b"mcmd=spawn" {
                return None;
            }
            (self.lines, self.bytes) = (Some(Vec::new()), 0);
            return Some(Ok(None));
        };
        if text != b"endcmd" {
            self.bytes += text.len();
            if lines.len() >= MAX_LINES || self.bytes > MAX_BYTES {
                return Some(Err(SpawnError::TooLong));
            }
            let text = String::from_utf8_lossy(text);
            let (key, value) = text.split_once('=').unwrap_or((&text, ""));
            lines.push((key.to_owned(), value.to_owned()));
            return Some(Ok(None));
        }
        let lines = self.lines.take().unwrap_or_default();
        Some(self.add(&lines).map(|all| all.then(|| std::mem::take(&mut self.request))))
    }

    /// Adds a program. Returns true if it is the last one.
    fn add(&mut self, lines: &[(String, String)]) -> Result<bool, SpawnError> {
        // The first line of a name counts: an argument cannot give another value of it.
        let find = |name: &str| lines.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let number = |name: &'static str| {
            find(name).and_then(|value| value.trim().parse::<usize>().ok()).ok_or(SpawnError::Word(name))
        };
        let pairs = |count: &'static str, sort: &str| -> Result<Vec<(String, String)>, SpawnError> {
            (0..find(count).map_or(Ok(0), |_| number(count))?.min(lines.len()))
                .map(|at| {
                    let key = find(&format!("{sort}_key_{at}")).ok_or(SpawnError::Word("key"))?;
                    let value = find(&format!("{sort}_val_{at}")).ok_or(SpawnError::Word("val"))?;
                    Ok((key.to_owned(), value.to_owned()))
                })
                .collect()
        };
        let path = find("execname").filter(|path| !path.is_empty()).ok_or(SpawnError::Word("execname"))?;
        let ranks = u32::try_from(number("nprocs")?).map_err(|_| SpawnError::Word("nprocs"))?;
        let args = (1..=number("argcnt")?.min(lines.len()))
            .map(|at| find(&format!("arg{at}")).map(str::to_owned).ok_or(SpawnError::Word("arg")));
        let program = SpawnProgram {
            path: path.to_owned(),
            args: args.collect::<Result<_, _>>()?,
            ranks,
            info: pairs("info_num", "info")?,
        };
        if self.request.programs.is_empty() {
            self.request.values = pairs("preput_num", "preput")?;
        }
        self.request.programs.push(program);
        let total = number("totspawns")?;
        if total > MAX_PROGRAMS {
            return Err(SpawnError::TooLong);
        }
        Ok(self.request.programs.len() >= total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn() -> Spawn {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let program = |path: &str, args: &[&str], ranks, info| SpawnProgram {
            path: path.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            ranks,
            info,
        };
        Spawn {
            programs: vec![
                program("/bin/a b", &["x=y", "", "nprocs=9", "two words"], 3, vec![pair("wdir", "/a b")]),
                program("c", &[], 1, Vec::new()),
            ],
            values: vec![pair(PARENT_PORT, "netmod-port:abc")],
        }
    }

    fn heard(text: &str) -> Result<Option<Spawn>, SpawnError> {
        let mut lines = SpawnLines::default();
        let mut last = Ok(None);
        for line in text.lines() {
            assert_eq!(last, Ok(None), "before {line}");
            last = lines.take(line.as_bytes()).expect("a line of the request");
        }
        last
    }

    #[test]
    fn a_request_comes_back() {
        assert_eq!(heard(&spawn().emit().expect("lines")), Ok(Some(spawn())));
        assert_eq!(SpawnLines::default().take(b"cmd=get_maxes"), None);
        let mut broken = spawn();
        broken.programs[0].args[0] = "a\nendcmd".into();
        assert_eq!(broken.emit(), Err(SpawnError::LineBreak));
    }

    #[test]
    fn a_request_of_pmi_2_has_its_words_in_order() {
        let mut wanted = spawn();
        wanted.programs[1].info.push(("soft".into(), "1:4".into()));
        let text = wanted.emit_frame().expect("a message");
        let expected = "cmd=spawn;ncmds=2;preputcount=1;ppkey0=PARENT_ROOT_PORT_NAME;ppval0=netmod-port:abc;\
                        subcmd=/bin/a b;maxprocs=3;argc=4;argv0=x=y;argv1=;argv2=nprocs=9;argv3=two words;\
                        infokeycount=1;infokey0=wdir;infoval0=/a b;subcmd=c;maxprocs=1;argc=0;infokeycount=0;";
        assert_eq!(text, expected);
        wanted.programs[0].args[0] = "a;b".into();
        assert_eq!(wanted.emit_frame(), Err(SpawnError::Semicolon));
        wanted.programs[0].args[0] = "a\nb".into();
        assert_eq!(wanted.emit_frame(), Err(SpawnError::LineBreak));
        wanted.programs[0].args[0] = "x".repeat(MAX_FRAME);
        assert_eq!(wanted.emit_frame(), Err(SpawnError::TooLong));
    }

    #[test]
    fn a_request_without_a_line_that_it_needs_is_an_error() {
        let text = spawn().emit().expect("lines");
        let first = text.split_inclusive("endcmd\n").next().expect("a program");
        for line in first.lines().filter(|line| !line.starts_with("mcmd") && *line != "endcmd") {
            let without: String = first.lines().filter(|l| *l != line).flat_map(|l| [l, "\n"]).collect();
            let optional =
                line.starts_with("preput_num") || line.starts_with("info_num") || line.starts_with("spawns");
            assert_eq!(heard(&without).is_err(), !optional, "{line}");
        }
        let many = format!("mcmd=spawn\n{}", "x=y\n".repeat(MAX_LINES + 1));
        assert_eq!(heard(&many), Err(SpawnError::TooLong));
    }
}
