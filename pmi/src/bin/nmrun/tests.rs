//! Command lines, parsed.

use std::ffi::OsString;
use std::time::Duration;

use netmod_pmi::launch::Binding;

use super::error::ArgumentError;
use super::options::{self, Form, GROUPS};
use super::parse::{Asked, Program, Request, parse};

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn job(line: &str) -> Request {
    match parse(words(line)) {
        Ok(Asked::Job(request)) => request,
        other => panic!("{line}: {other:?}"),
    }
}

fn error(line: &str) -> String {
    parse(words(line)).expect_err(line).to_string()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    list.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn each_name_is_found_once() {
    let mut seen = std::collections::BTreeSet::new();
    for row in GROUPS.iter().flat_map(|(_, rows)| *rows) {
        assert!(!row.help.is_empty(), "{row:?}");
        for name in row.names {
            assert!(seen.insert(*name), "-{name} is there twice");
            assert_eq!(options::find(name).map(|r| r.names), Some(row.names));
        }
    }
}

#[test]
fn the_help_names_every_option_in_lines_of_a_terminal() {
    let help = options::help();
    for name in GROUPS.iter().flat_map(|(_, rows)| *rows).flat_map(|row| row.names) {
        assert!(help.contains(&format!("-{name}")), "{name}");
    }
    for line in help.lines() {
        assert!(line.len() <= 120, "{line}");
    }
    assert!(matches!(parse(words("-h")), Ok(Asked::Help)));
    assert!(matches!(parse(words("--help -n 0")), Ok(Asked::Help)));
    assert!(matches!(parse(words("-n 2 --version")), Ok(Asked::Version)));
}

#[test]
fn options_end_with_the_program() {
    for line in ["-n 3 a -n 4 -x", "--np=3 a -n 4 -x", "-np 3 -- a -n 4 -x", "--ranks 3 a -n 4 -x"] {
        let request = job(line);
        let [program] = &request.programs[..] else { panic!("{request:?}") };
        assert_eq!((program.ranks, &program.command), (3, &words("a -n 4 -x")), "{line}");
    }
    assert_eq!(job("-- -a").programs[0].command, words("-a"));
}

#[test]
fn programs_are_divided_by_colons() {
    let request = job("-l -genv A 1 -env B=2 a x : -n 3 -env B 3 b : -np 2 c : d");
    let found: Vec<_> = request.programs.iter().map(|p| (p.ranks, p.command.clone())).collect();
    let expected = [(1, "a x"), (3, "b"), (2, "c"), (1, "d")].map(|(n, line)| (n, words(line)));
    assert_eq!(found, expected);
    assert!(request.label);
    assert_eq!(request.env, pairs(&[("A", "1")]));
    assert_eq!(request.programs[0].env, pairs(&[("B", "2")]));
    assert_eq!(request.programs[1].env, pairs(&[("B", "3")]));
    assert!(error("a : -n 2").starts_with("part 2 of the command line"));
    assert!(error(": a").starts_with("part 1 of the command line"));
}

#[test]
fn the_folder_counts_for_later_programs() {
    let folders: Vec<_> = job("a : -wdir / b : c : -wd /proc d : e")
        .programs
        .into_iter()
        .map(|p| p.directory.map(|d| d.display().to_string()))
        .collect();
    assert_eq!(
        folders,
        [None, Some("/"), Some("/"), Some("/proc"), Some("/proc")].map(|d| d.map(str::to_owned))
    );
    let told = error("-wdir /no/such/folder a");
    assert!(told.contains("-wdir") && told.contains("/no/such/folder is no folder"), "{told}");
}

#[test]
fn options_of_other_launchers_work() {
    let request = job(
        "-disable-auto-cleanup -genvall -genvlist A,B -envlist C -x PATH -x D=4 -ppn 2 -hosts localhost:8 \
         -timeout 0.5 -bind-to core -usize 9 -v -print-all-exitcodes -pmi-port -nodes 2 \
         --oversubscribe a",
    );
    assert!(request.no_kill && request.verbose && request.exit_codes && request.pmi_port);
    assert_eq!(request.env, pairs(&[("D", "4")]));
    assert_eq!(request.programs, [Program { ranks: 2, command: words("a"), ..Program::default() }]);
    assert_eq!(request.timeout, Some(Duration::from_millis(500)));
    assert_eq!(request.binding, Binding::Core);
    assert_eq!((request.universe, request.nodes), (Some(9), Some(2)));
    assert_eq!(job("-bind-to none a").binding, Binding::None);
    assert_eq!(job("a").binding, Binding::Share);
    assert_eq!(job("-ppn 2 -n 4 a").programs[0].ranks, 4);
}

#[test]
fn a_wrong_option_names_the_way_out() {
    for (line, parts) in [
        ("-labl a", &["there is no option \"-labl\", did you mean -label?", "-h lists all", "./-labl"][..]),
        ("--prepend-rang a", &["did you mean -prepend-rank?"]),
        ("-q a", &["there is no option \"-q\"; -h lists all"]),
        ("-zzzzzzzz a", &["there is no option \"-zzzzzzzz\"; -h lists all"]),
        ("-gdb a", &["\"-gdb\" is not offered", "gdb -p PID", "MPIR_proctable"]),
        ("-launcher ssh a", &["mpiexec.hydra and srun --mpi=pmi2"]),
        ("-map-by socket a", &["-bind-to core"]),
        ("-bind-to socket a", &["\"-bind-to socket\": not one of core, none", "taskset"]),
        (
            "-hosts localhost,192.0.2.1 a",
            &["host \"192.0.2.1\" is not this machine", "mpiexec.hydra", "srun"],
        ),
        ("-n", &["\"-n\" wants a value: N"]),
        ("-n x a", &["\"-n x\": not a number"]),
        ("-n 0 a", &["\"-n 0\": not one of 1 to 4096"]),
        ("-n 4097 a", &["not one of 1 to 4096"]),
        ("-l=1 a", &["\"-l\" takes no value"]),
        ("-env =1 a", &["not of the form NAME=VALUE"]),
        ("-env A", &["\"-env\" wants a value"]),
        ("-timeout -1 a", &["\"-timeout -1\": not above 0"]),
        ("-timeout nan a", &["not above 0"]),
        ("-timeout soon a", &["not a number of seconds"]),
        ("-timeout 1e300 a", &["-timeout 1e300"]),
        ("-f /no/such/file a", &["-f /no/such/file", "cannot read it"]),
        ("-n 2", &["the command line names no program", "nmrun -n 2 PROGRAM"]),
        ("", &["the command line names no program"]),
    ] {
        let told = error(line);
        for part in parts {
            assert!(told.contains(part), "{line}: {part:?} is not in {told:?}");
        }
    }
}

#[test]
fn every_refused_option_says_what_to_do_instead() {
    for row in GROUPS.iter().flat_map(|(_, rows)| *rows) {
        if let Form::Refused = row.form {
            for name in row.names {
                assert!(error(&format!("-{name} x a")).ends_with(row.help), "{name}");
            }
        }
    }
}

#[test]
fn a_file_has_programs_too() {
    let path = std::env::temp_dir().join(format!("nmrun-words-{}", std::process::id()));
    let shown = path.display();
    std::fs::write(&path, "# two lines\n-n 2 -env A 1 a 'b c'\n\n-wdir /proc -n 3 d : e\n").unwrap();
    let request = job(&format!("-l -env Z 26 -wdir / -configfile {shown}"));
    assert!(request.label);
    let found: Vec<_> = request.programs.iter().map(|p| (p.ranks, p.command.len())).collect();
    assert_eq!(found, [(2, 2), (3, 1), (1, 1)]);
    assert_eq!(request.programs[0].env, pairs(&[("Z", "26"), ("A", "1")]));
    let folders: Vec<_> = request.programs.iter().map(|p| p.directory.clone().unwrap()).collect();
    assert_eq!(folders, ["/", "/proc", "/proc"].map(std::path::PathBuf::from));
    assert!(error(&format!("-configfile {shown} x")).contains("\"x\" follows -configfile"));
    std::fs::write(&path, "a 'b\n").unwrap();
    assert!(error(&format!("-configfile {shown}")).contains("line 1: a quotation mark"));
    std::fs::write(&path, "# nothing\n").unwrap();
    assert!(error(&format!("-configfile {shown}")).contains("names no program"));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(parse(words(&format!("-configfile {shown}"))), Err(ArgumentError::Value { .. })));
}

/// Parsing ends with a request or an error for any words.
#[test]
fn any_words_are_parsed() {
    let rows = GROUPS.iter().flat_map(|(_, rows)| *rows).flat_map(|row| row.names);
    let mut some: Vec<String> = rows.map(|name| format!("-{name}")).collect();
    some.extend(
        [":", "--", "-", "", "=", "-=", "--=", "A=1", "3", "none", "a", "-n=", "-é"].map(str::to_owned),
    );
    let mut state = 1u64;
    for _ in 0..100_000 {
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize
        };
        let line: Vec<OsString> = (0..next() % 7).map(|_| some[next() % some.len()].clone().into()).collect();
        // Names of hosts are looked up, which takes time.
        if !line.iter().any(|word| ["-hosts", "-host", "-H"].iter().any(|name| word == name)) {
            let _ = parse(line);
        }
    }
}
