//! The singleton, and the interface over a client.

use super::*;
use crate::client::Version;
use crate::client::parse_ranks;
use crate::codec::MAX_VALUE;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

fn is_send<T: Send>() {}

#[test]
fn a_singleton_has_everything_a_job_has() {
    is_send::<ProcessManager>();
    let mut pm = ProcessManager::singleton();
    assert!(pm.is_singleton());
    assert_eq!(pm.universe_size().unwrap(), Some(1));
    assert_eq!((pm.rank(), pm.size(), pm.appnum(), pm.local_ranks()), (0, 1, 0, 1));
    assert_eq!((pm.node_of(0), pm.node_of(1)), (Some(0), None));
    assert_eq!((pm.fd(), pm.process_mapping()), (None, None));
    assert_eq!(pm.get_bytes("k").unwrap(), None);
    pm.put_bytes("k", b"value").unwrap();
    pm.put_bytes("k", b"again").unwrap_err();
    pm.put_bytes("a b", b"").unwrap_err();
    pm.put_bytes("large", &vec![0; MAX_VALUE + 1]).unwrap_err();
    pm.barrier().unwrap();
    assert_eq!(pm.get_bytes("k").unwrap().unwrap(), b"value");
    pm.barrier_poll().unwrap_err();
    pm.barrier_begin().unwrap();
    pm.get_bytes("k").unwrap_err();
    assert!(pm.barrier_poll().unwrap());
    pm.finalize().unwrap();
    pm.finalize().unwrap();
    assert!(matches!(pm.barrier().unwrap_err(), PmiError::State { .. }));
}

#[test]
fn singletons_have_different_names() {
    assert_ne!(ProcessManager::singleton().job_id(), ProcessManager::singleton().job_id());
}

/// Returns a job of four over a server that replies `mapping` for the process mapping.
fn over(mapping: &'static str, local_ranks: Option<u32>) -> ProcessManager {
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let mut writer = theirs.try_clone().unwrap();
        for line in BufReader::new(theirs).lines().map_while(Result::ok) {
            let reply = match line.split(' ').next().unwrap() {
                "cmd=init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                "cmd=get_maxes" => "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
                "cmd=get_appnum" => "cmd=appnum appnum=2",
                "cmd=get_my_kvsname" => "cmd=my_kvsname kvsname=job",
                _ => mapping,
            };
            writeln!(writer, "{reply}").unwrap();
        }
    });
    ProcessManager::over(PmiClient::from_fd(ours.into(), 2, 4, Version::V1, None).unwrap(), local_ranks)
        .unwrap()
}

#[test]
fn nodes_come_from_the_mapping() {
    let pm = over("cmd=get_result rc=0 value=(vector,(0,1,3),(1,1,1))", Some(9));
    let nodes: Vec<_> = (0..5).map(|rank| pm.node_of(rank)).collect();
    assert_eq!(nodes, [Some(0), Some(0), Some(0), Some(1), None]);
    assert_eq!((pm.local_ranks(), pm.appnum(), pm.job_id()), (3, 2, "job"));
    assert_eq!(pm.process_mapping().unwrap(), "(vector,(0,1,3),(1,1,1))");
    assert!(pm.fd().is_some() && !pm.is_singleton());
}

#[test]
fn without_a_mapping_the_launchers_count_is_taken() {
    for mapping in ["cmd=get_result rc=1", "cmd=get_result rc=0 value=(nonsense)"] {
        for (told, expected) in [(Some(2), 2), (Some(0), 1), (Some(99), 4), (None, 1)] {
            let pm = over(mapping, told);
            assert_eq!((pm.local_ranks(), pm.node_of(0)), (expected, None), "{mapping} {told:?}");
        }
    }
}

#[test]
fn lists_of_failed_ranks_are_read() {
    assert_eq!(parse_ranks("2", 4), Some(vec![2]));
    assert_eq!(parse_ranks("3,0-1,1", 4), Some(vec![0, 1, 3]));
    assert_eq!(parse_ranks("", 4), Some(vec![]));
    for bad in ["4", "x", "1-", "2-1", "0-4294967295", "-1"] {
        assert_eq!(parse_ranks(bad, 4), None, "{bad}");
    }
    assert_eq!(ProcessManager::singleton().failed_ranks().unwrap(), []);
}

#[test]
fn last_words_are_read_before_the_launcher_is_told() {
    let (mut reader, mut writer) = io::pipe().expect("a pipe");
    let begun = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            begun.store(true, Ordering::SeqCst);
            let mut text = [0; 4];
            io::Read::read_exact(&mut reader, &mut text).expect("a text");
            assert_eq!(&text, b"why\n");
        });
        last_words(&mut writer, "why\n", Duration::from_secs(60)).expect("a reader");
        assert!(begun.load(Ordering::SeqCst), "nobody has read it yet");
    });
}

#[test]
fn last_words_that_nobody_reads_end_nevertheless() {
    let (reader, mut writer) = io::pipe().expect("a pipe");
    last_words(&mut writer, "why\n", Duration::from_millis(2)).expect("room in the pipe");
    drop(reader);
    assert!(last_words(&mut writer, "why\n", Duration::from_secs(60)).is_err(), "nobody can read it");
    // A file that is no pipe has no reader to wait for.
    let mut file = std::fs::File::options().write(true).open("/dev/null").expect("a file");
    last_words(&mut file, "why\n", Duration::from_secs(60)).expect("a file takes everything");
}
