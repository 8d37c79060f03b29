//! Tests of groups of ranks, names of sockets, and a socket that never answers.

use std::os::unix::net::UnixListener;

use ch3_shim::StatusReport;

use super::*;
use show::{ranges, text};

fn name(rank: u32) -> Name {
    Name { job: "0123abcd".into(), rank, pid: 1000 + rank, path: PathBuf::new() }
}

fn report(rank: u32, wait: &str) -> (Name, Answer) {
    let waits = [(wait.to_owned(), 1)].into();
    let r =
        StatusReport { rank, size: 4000, activity: "blocked in a wait".into(), waits, ..Default::default() };
    (name(rank), Answer::Report(Box::new(r)))
}

#[test]
fn names_of_sockets() {
    let n = Name::of(Path::new("/run/x/0123abcd-17-4711.sock")).unwrap();
    assert_eq!((n.job.as_str(), n.rank, n.pid), ("0123abcd", 17, 4711));
    for bad in ["x.sock", "a-b-c.sock", "0123abcd-17-4711.txt", "0123abcd-17-.sock", "-1.sock"] {
        assert_eq!(Name::of(Path::new(bad)), None, "{bad}");
    }
}

#[test]
fn ranks_as_ranges() {
    assert_eq!(ranges(&[]), "");
    assert_eq!(ranges(&[3, 1, 2, 7, 9, 8, 11]), "1-3,7-9,11");
    assert_eq!(ranges(&[5, 5]), "5");
}

/// Four thousand ranks give a few lines, the unusual ones first.
#[test]
fn outliers_come_first() {
    let mut answers: Vec<_> = (0..4000).map(|r| report(r, "a message that matches")).collect();
    answers[17] = report(17, "room at its receiver");
    answers[1234].1 = Answer::Silent { state: 'R', wchan: String::new() };
    answers[1235].1 = Answer::Silent { state: 'R', wchan: String::new() };
    answers[3999].1 = Answer::Gone;
    let shown = text(&answers);
    let groups: Vec<&str> = shown.lines().filter(|l| l.starts_with("  ") && !l.starts_with("   ")).collect();
    assert_eq!(groups.len(), 4, "{shown}");
    assert!(shown.starts_with("job 0123abcd: 4000 of 4000 ranks here, 3997 answer\n"), "{shown}");
    assert!(groups[..2].iter().any(|g| g.starts_with("  1 rank (17): blocked in a wait; waits for room")));
    assert!(groups[..2].iter().any(|g| g.starts_with("  1 rank (3999): its process has ended")));
    assert!(groups[2].starts_with("  2 ranks (1234-1235): does not answer"), "{shown}");
    assert!(groups[3].starts_with("  3996 ranks (0-16,18-1233,1236-3998): "), "{shown}");
    assert!(shown.lines().count() < 20, "{shown}");
}

#[test]
fn who_does_not_answer_is_not_waited_for_long() {
    let folder = std::env::temp_dir().join(format!("netmod-top-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let own = std::process::id();
    let silent = folder.join(format!("0123abcd-0-{own}.sock"));
    let _listener = UnixListener::bind(&silent).unwrap();
    // The socket of a killed process: nobody listens, and the process does not exist.
    let stale = folder.join("0123abcd-1-4194305.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let args = TopArgs { targets: vec![folder.display().to_string()], patience: 50, ..TopArgs::default() };
    let found = names(&args).unwrap();
    assert_eq!(found.iter().map(|n| n.rank).collect::<Vec<_>>(), [0, 1]);
    let answers = ask::ask(found, Duration::from_millis(50));
    assert!(matches!(answers[0].1, Answer::Silent { .. }), "{answers:?}");
    assert_eq!(answers[1].1, Answer::Gone);
    let only = TopArgs { rank: vec![1], ..args };
    assert_eq!(names(&only).unwrap().len(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn another_users_job_is_denied() {
    let name = Name::of(Path::new("/run/x/0123abcd-17-4711.sock")).unwrap();
    let text = show::text(&[(name, Answer::Denied)]);
    assert!(text.contains("permission denied: it belongs to another user"), "{text}");
}

#[test]
fn targets_are_parsed() {
    let here = Some(PathBuf::from("/somewhere"));
    assert_eq!(Target::of(None, here.clone()).unwrap(), Target::Folder("/somewhere".into()));
    assert_eq!(Target::of(Some("/"), None).unwrap(), Target::Folder("/".into()));
    let job = Target::of(Some("12345678"), here.clone()).unwrap();
    assert_eq!(job, Target::Job("/somewhere".into(), "12345678".into()));
    let own = std::process::id();
    assert_eq!(Target::of(Some(&own.to_string()), here).unwrap(), Target::Process("/somewhere".into(), own));
    assert!(Target::of(None, None).unwrap_err().to_string().contains("which job?"));
    assert!(Target::of(Some("0123abcd"), None).unwrap_err().to_string().contains("is neither a folder"));
}
