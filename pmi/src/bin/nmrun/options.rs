//! The table of options: names, values and help.
//!
//! Names follow Hydra, the MPI standard's `mpiexec`, and Open MPI where scripts use them.

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// Names without dashes, the usual one first. One dash and two mean the same.
    pub(crate) names: &'static [&'static str],
    pub(crate) form: Form,
    pub(crate) help: &'static str,
}

impl Row {
    /// Returns a placeholder for the option's value, if it has one.
    pub(crate) fn shown(&self) -> Option<&'static str> {
        match self.form {
            Form::Flag(_) | Form::Refused => None,
            Form::Value(shown, _) => Some(shown),
            Form::Variable { .. } => Some("NAME VALUE"),
        }
    }
}

/// Form of an option: its values and its effect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// No value.
    Flag(Flag),
    /// One value, of which the text is a placeholder.
    Value(&'static str, Value),
    /// `NAME VALUE` or `NAME=VALUE`, for all ranks or for those of one program.
    Variable { all: bool },
    /// Known from other launchers, and not offered: the help says what to do instead.
    Refused,
}

/// An option without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    Help,
    Manual,
    Completions,
    Version,
    Label,
    NoKill,
    PmiPort,
    Verbose,
    ExitCodes,
    /// Nothing to do: it asks for what is so anyway.
    Already,
}

/// An option with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Ranks,
    Directory,
    Timeout,
    Export,
    Hosts,
    HostFile,
    PerHost,
    Nodes,
    Universe,
    BindTo,
    ConfigFile,
    /// A list of variables that are passed anyway.
    Passed,
}

const fn flag(names: &'static [&'static str], flag: Flag, help: &'static str) -> Row {
    Row { names, form: Form::Flag(flag), help }
}

const fn value(names: &'static [&'static str], shown: &'static str, value: Value, help: &'static str) -> Row {
    Row { names, form: Form::Value(shown, value), help }
}

const fn variable(names: &'static [&'static str], all: bool, help: &'static str) -> Row {
    Row { names, form: Form::Variable { all }, help }
}

const fn refused(names: &'static [&'static str], instead: &'static str) -> Row {
    Row { names, form: Form::Refused, help: instead }
}

/// Groups of rows, with their headings.
pub(crate) const GROUPS: [(&str, &[Row]); 5] = [
    (
        "For one program (before it; again after each ':')",
        &[
            value(&["n", "np", "ranks", "c"], "N", Value::Ranks, "number of ranks (default 1)"),
            variable(&["env"], false, "set a variable; also -env NAME=VALUE"),
            value(
                &["wdir", "wd"],
                "DIR",
                Value::Directory,
                "folder to start in; later programs without one use it too",
            ),
        ],
    ),
    (
        "For all ranks",
        &[
            variable(&["genv"], true, "set a variable; also -genv NAME=VALUE"),
            value(&["x"], "NAME[=VALUE]", Value::Export, "the same, or pass a variable on as it is"),
            value(
                &["genvlist", "envlist"],
                "A,B",
                Value::Passed,
                "pass these variables on (all are, always)",
            ),
            flag(&["genvall", "envall"], Flag::Already, "pass all variables on (as always)"),
            flag(&["l", "prepend-rank", "label"], Flag::Label, "begin each line of output with [RANK]"),
            value(
                &["timeout"],
                "S",
                Value::Timeout,
                "end the job after S seconds, with exit code 124 (or set MPIEXEC_TIMEOUT)",
            ),
            flag(
                &["disable-auto-cleanup", "no-kill"],
                Flag::NoKill,
                "let the other ranks go on when one fails",
            ),
            value(
                &["bind-to"],
                "core|none",
                Value::BindTo,
                "core: one core for each rank; none: ranks move freely. Default: where there are no more \
                 ranks than cores, each rank has an equal share of the cores to itself",
            ),
            value(&["usize"], "N", Value::Universe, "most ranks that a program may expect"),
            value(
                &["configfile"],
                "FILE",
                Value::ConfigFile,
                "read a program, its options and arguments from each line; '#' begins a comment",
            ),
        ],
    ),
    (
        "Hosts (ranks run on this machine; other hosts are refused)",
        &[
            value(&["hosts", "host", "H"], "A,B", Value::Hosts, "names of this machine"),
            value(&["f", "hostfile", "machinefile"], "FILE", Value::HostFile, "file of such names"),
            value(
                &["ppn", "perhost", "npernode"],
                "N",
                Value::PerHost,
                "ranks on each host: the number of ranks, if there is no -n",
            ),
            flag(
                &["disable-hostname-propagation", "disable-x", "oversubscribe", "allow-run-as-root"],
                Flag::Already,
                "nothing to do",
            ),
        ],
    ),
    (
        "About the launcher",
        &[
            flag(&["v", "verbose"], Flag::Verbose, "say where the ranks run (or set NETMOD_LOG=info)"),
            flag(&["print-all-exitcodes"], Flag::ExitCodes, "print how each rank has ended"),
            flag(&["pmi-port"], Flag::PmiPort, "serve PMI over TCP on 127.0.0.1, not by a descriptor"),
            value(&["nodes"], "N", Value::Nodes, "tell the ranks that they are on N nodes; for tests"),
            flag(&["h", "help"], Flag::Help, "print this"),
            flag(&["manual"], Flag::Manual, "print this as a manual page"),
            flag(&["completions"], Flag::Completions, "print completions for bash"),
            flag(&["V", "version", "info"], Flag::Version, "print the version"),
        ],
    ),
    (
        "Known from other launchers, and refused",
        &[
            refused(
                &["gdb", "gdba", "tv", "tva", "tvsu", "debug", "ddt"],
                "start the job and attach to a rank (gdb -p PID), or start one debugger for each rank \
                 (nmrun -n 2 xterm -e gdb --args PROGRAM); debuggers for MPI that start nmrun find the \
                 ranks in its process table (MPIR_proctable)",
            ),
            refused(
                &["launcher", "bootstrap", "launcher-exec", "bootstrap-exec", "rmk"],
                "ranks are started on this machine, without a remote shell or resource manager; \
                 mpiexec.hydra and srun --mpi=pmi2 start the same program with them",
            ),
            refused(
                &["map-by", "membind", "topolib", "order-nodes", "binding", "gpus-per-proc"],
                "-bind-to core and -bind-to none are all there is; numactl or taskset before the program \
                 can do more",
            ),
            refused(
                &["outfile-pattern", "errfile-pattern", "prepend-pattern"],
                "-prepend-rank labels each line with its rank",
            ),
            refused(
                &["genvnone", "envnone"],
                "ranks get all variables; 'env -i' before the program starts it without",
            ),
            refused(
                &["iface", "localhost", "nameserver"],
                "all ranks are on this machine; NETMOD_TCP_INTERFACE chooses interfaces",
            ),
            refused(
                &["mca", "gmca", "report-bindings", "rankfile"],
                "this is Open MPI's; -v says where the ranks run, and NETMOD_ variables are the settings",
            ),
            refused(
                &["path", "arch", "soft", "file", "initial-errhandler", "s", "stdin"],
                "give the program with its path; stdin goes to rank 0",
            ),
            refused(
                &["enable-x", "skip-launch-node", "demux", "profile"],
                "there is nothing of the kind here",
            ),
        ],
    ),
];

/// Returns the row of a name without dashes.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    GROUPS.iter().flat_map(|(_, rows)| *rows).find(|row| row.names.contains(&name))
}

/// Returns the name that is most like `name`, if one is.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let names = GROUPS.iter().flat_map(|(_, rows)| *rows).flat_map(|row| row.names);
    let (distance, nearest) = names.map(|n| (distance(name, n), *n)).min()?;
    // One letter can be anything.
    (distance <= name.len().div_ceil(3) && name.len() > 1).then_some(nearest)
}

/// Returns the number of letters to insert, remove or replace to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for j in 0..b.len() {
            let replaced = corner + usize::from(letter != b[j]);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

/// Returns the help.
pub(crate) fn help() -> String {
    use std::fmt::Write as _;
    let mut text = "Starts the ranks of a job on this machine.\n\n\
                    nmrun [OPTIONS] [-n N] PROGRAM [ARGS] [: [-n N] PROGRAM [ARGS]]...\n\n\
                    The exit code is 0 if every rank exited with 0, else that of the rank that failed \
                    first\n(128 + signal if it was killed), 124 after the time limit, 126 or 127 if a \
                    program could not be\nstarted. Rank 0 gets the input.\n"
        .to_owned();
    // Writing to a string cannot fail.
    for (heading, rows) in GROUPS {
        let _ = write!(text, "\n{heading}:\n");
        for row in rows {
            let value = row.shown().unwrap_or_default();
            let names: Vec<String> = row.names.iter().map(|name| format!("-{name}")).collect();
            let _ = write!(text, "  {} {value}", names.join(", "));
            let mut column = usize::MAX;
            for word in row.help.split_whitespace() {
                if column.saturating_add(word.len() + 1) > 96 {
                    text.truncate(text.trim_end().len());
                    text.push_str("\n      ");
                    column = 5;
                }
                let _ = write!(text, "{}{word}", if column == 5 { "" } else { " " });
                column += word.len() + 1;
            }
            text.push('\n');
        }
    }
    text
}
