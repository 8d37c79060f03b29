//! The manual page, and completions for bash, made from the table of options.

use std::fmt::Write as _;

use roff::{Inline, Roff, bold, italic, roman};

use super::options::{Form, GROUPS, Row, Value};

/// The launcher's names.
const NAMES: &str = "nmrun mpiexec mpirun";

/// Returns the manual page.
pub(crate) fn manual() -> String {
    let source = concat!("netmod ", env!("CARGO_PKG_VERSION"));
    let mut page = Roff::new();
    page.control("TH", ["NMRUN", "1", " ", source, "User Commands"]);
    page.control("SH", ["NAME"]);
    page.text([roman("nmrun, mpiexec, mpirun - start the ranks of an MPI job on this machine")]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold("nmrun"), roman(" [OPTIONS] [-n N] PROGRAM [ARGS] [: [-n N] PROGRAM [ARGS]]...")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "Starts the ranks, serves PMI-1 to them, and passes output, signals and exit codes on. Rank 0 gets the input.",
    )]);
    page.control("SH", ["OPTIONS"]);
    for (heading, rows) in GROUPS {
        page.control("SS", [heading]);
        for row in rows {
            page.control("TP", []);
            page.text(title(row));
            page.text([roman(row.help)]);
        }
    }
    page.control("SH", ["EXIT STATUS"]);
    page.text([roman(
        "0 if every rank exited with 0, else that of the rank that failed first (128 + signal if it was killed); 124 \
         after the time limit; 126 or 127 if a program could not be started; 2 for a command line that starts no job.",
    )]);
    page.render()
}

/// Returns the names of an option and its value, as the page shows them.
fn title(row: &Row) -> Vec<Inline> {
    let mut title = Vec::new();
    for (number, name) in row.names.iter().enumerate() {
        if number > 0 {
            title.push(roman(", "));
        }
        title.push(bold(format!("-{name}")));
    }
    if let Some(value) = row.shown() {
        title.extend([roman(" "), italic(value)]);
    }
    title
}

/// Returns the completions: options, what may follow some of them, and programs.
pub(crate) fn completions() -> String {
    let offered =
        || GROUPS.iter().flat_map(|(_, rows)| *rows).filter(|row| !matches!(row.form, Form::Refused));
    let words: Vec<String> = offered().flat_map(|row| row.names).map(|name| format!("-{name}")).collect();
    let mut cases = String::new();
    for row in offered() {
        let follows = match row.form {
            Form::Value(_, Value::Directory) => "compgen -d -- \"$word\"",
            Form::Value(_, Value::HostFile | Value::ConfigFile) => "compgen -f -- \"$word\"",
            Form::Value(_, Value::BindTo) => "compgen -W 'core none' -- \"$word\"",
            // A number or a name that is the user's own.
            Form::Value(..) | Form::Variable { .. } => ":",
            Form::Flag(_) | Form::Refused => continue,
        };
        let names: Vec<String> = row.names.iter().map(|name| format!("-{name}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(cases, "        {}) mapfile -t COMPREPLY < <({follows}) ;;", names.join(" | "));
    }
    format!(
        "\
# Completions of {NAMES} for bash.
_nmrun() {{
    local word=$2
    case $3 in
{cases}        *)
            if [[ $word == -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$word\")
            else
                mapfile -t COMPREPLY < <(compgen -A command -A file -- \"$word\")
            fi
            ;;
    esac
}}
complete -o filenames -F _nmrun {NAMES}
",
        words.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_on_the_page() {
        let page = manual();
        for row in GROUPS.iter().flat_map(|(_, rows)| *rows) {
            let name = row.names[0].replace('-', "\\-");
            assert!(page.contains(&format!("\\fB\\-{name}\\fR")), "{name}: {page}");
        }
        assert!(page.contains(".TH NMRUN 1"), "{page}");
    }

    #[test]
    fn bash_completes_options_and_their_values() {
        let ask = |previous: &str, word: &str| {
            let script = format!(
                "{}\n_nmrun mpiexec '{word}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                completions()
            );
            let done = std::process::Command::new("bash").args(["-c", &script]).output().expect("bash");
            assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
            String::from_utf8(done.stdout).expect("text").trim().to_owned()
        };
        assert_eq!(ask("mpiexec", "-print-all"), "-print-all-exitcodes");
        assert_eq!(ask("-bind-to", "c"), "core");
        assert_eq!(ask("-n", "4"), "");
        assert!(ask("-l", "bas").lines().any(|word| word == "bash"));
        assert!(!completions().contains("-gdb"), "what is refused is not offered");
    }
}
