//! The client against scripted servers: real dialects, and broken ones.

use super::*;
use crate::wire::tests::Random;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

/// The replies of one kind of server. `K` in a put or get decides which one is sent.
#[derive(Clone, Copy)]
struct Dialect {
    init: &'static str,
    maxes: &'static str,
    appnum: &'static str,
    name: &'static str,
    universe: &'static str,
    put: &'static str,
    miss: &'static str,
    hit: &'static str,
    barrier: &'static str,
    finalize: &'static str,
}

const HYDRA4: Dialect = Dialect {
    init: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    maxes: "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
    appnum: "cmd=appnum appnum=0",
    name: "cmd=my_kvsname kvsname=kvs_5050_0_2049869077_vm",
    universe: "cmd=universe_size size=9",
    put: "cmd=put_result rc=0 msg=success",
    miss: "cmd=get_result rc=-1 msg=key_nope_not_found value=unknown",
    hit: "cmd=get_result rc=0 msg=success value=",
    barrier: "cmd=barrier_out",
    finalize: "cmd=finalize_ack",
};

const HYDRA5: Dialect = Dialect {
    init: "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2",
    maxes: "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
    appnum: "cmd=appnum rc=0 appnum=0",
    name: "cmd=my_kvsname rc=0 kvsname=kvs_5796_0_1299685124_vm",
    universe: "cmd=universe_size rc=0 size=9",
    put: "cmd=put_result rc=0",
    miss: "cmd=get_result rc=14",
    hit: "cmd=get_result rc=0 value=",
    barrier: "cmd=barrier_out tag=0",
    finalize: "cmd=finalize_ack rc=0",
};

const SLURM: Dialect = Dialect {
    init: "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
    maxes: "cmd=maxes rc=0 kvsname_max=1024 keylen_max=1024 vallen_max=1024",
    appnum: "cmd=appnum rc=0 appnum=0",
    name: "cmd=my_kvsname rc=0 kvsname=1.0",
    universe: "cmd=universe_size rc=0 size=9",
    put: "cmd=put_result rc=0",
    miss: "cmd=get_result rc=1",
    hit: "cmd=get_result rc=0 value=",
    barrier: "cmd=barrier_out rc=0",
    finalize: "cmd=finalize_ack rc=0",
};

/// Serves one client until it disconnects; returns the requests.
fn serve(dialect: Dialect, stream: UnixStream) -> JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut kvs = std::collections::HashMap::new();
        let mut requests = Vec::new();
        let mut writer = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            let words = crate::wire::Line::parse(line.as_bytes()).unwrap();
            let reply = match words.cmd() {
                "init" => dialect.init.to_owned(),
                "get_maxes" => dialect.maxes.to_owned(),
                "get_appnum" => dialect.appnum.to_owned(),
                "get_my_kvsname" => dialect.name.to_owned(),
                "get_universe_size" => dialect.universe.to_owned(),
                "put" => {
                    let (key, value) = (words.get("key").unwrap(), words.get("value").unwrap());
                    kvs.insert(key.to_owned(), value.to_owned());
                    dialect.put.to_owned()
                }
                "get" => match kvs.get(words.get("key").unwrap()) {
                    Some(value) => format!("{}{value}", dialect.hit),
                    None => dialect.miss.to_owned(),
                },
                "barrier_in" => dialect.barrier.to_owned(),
                "finalize" => dialect.finalize.to_owned(),
                "abort" => String::new(),
                other => panic!("unexpected {other}"),
            };
            requests.push(line);
            if !reply.is_empty() && writeln!(writer, "{reply}").is_err() {
                break;
            }
        }
        requests
    })
}

fn start(dialect: Dialect) -> (Result<PmiClient, PmiError>, JoinHandle<Vec<String>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = serve(dialect, theirs);
    (PmiClient::from_fd(ours.into(), 1, 4, Version::V1, None), server)
}

#[test]
fn every_dialect_is_understood() {
    for dialect in [HYDRA4, HYDRA5, SLURM] {
        let (client, server) = start(dialect);
        let mut client = client.unwrap();
        assert_eq!((client.rank(), client.size(), client.appnum()), (1, 4, 0));
        assert!(dialect.name.ends_with(client.kvsname()));
        assert_eq!(client.maxes().value, 1024);
        assert_eq!(client.universe_size().unwrap(), Some(9));
        assert_eq!(client.get_str("nope").unwrap(), None);
        assert_eq!(client.get_bytes("nope").unwrap(), None);
        client.put_str("PMI_process_mapping", "(vector,(0,1,1))").unwrap();
        assert_eq!(client.get_str("PMI_process_mapping").unwrap().unwrap(), "(vector,(0,1,1))");
        let value: Vec<u8> = (0..5000u32).map(|i| (i % 253) as u8).collect();
        client.put_bytes("card-1", &value).unwrap();
        client.put_bytes("empty", b"").unwrap();
        client.barrier().unwrap();
        assert_eq!(client.get_bytes("card-1").unwrap().unwrap(), value);
        assert_eq!(client.get_bytes("empty").unwrap().unwrap(), b"");
        client.finalize().unwrap();
        client.finalize().unwrap();
        let error = client.put_str("late", "x").unwrap_err();
        assert!(matches!(error, PmiError::State { .. }), "{error}");
        drop(client);
        let requests = server.join().unwrap();
        assert!(requests.iter().all(|line| line.len() < MAX_REQUEST));
        assert!(!requests.iter().any(|line| line.ends_with("value=")), "an empty value");
    }
}

#[test]
fn a_universe_without_a_limit_has_no_size() {
    let (client, _server) = start(Dialect { universe: "cmd=universe_size size=-1", ..HYDRA4 });
    assert_eq!(client.unwrap().universe_size().unwrap(), None);
    let (client, _server) = start(Dialect { universe: "cmd=universe_size", ..HYDRA4 });
    let error = client.unwrap().universe_size().unwrap_err().to_string();
    assert!(error.contains("there is no size"), "{error}");
}

#[test]
fn leaving_waits_for_no_answer() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let mut writer = theirs.try_clone().unwrap();
        let mut lines = BufReader::new(theirs).lines();
        for reply in [SLURM.init, SLURM.maxes, SLURM.appnum, SLURM.name] {
            lines.next().unwrap().unwrap();
            writeln!(writer, "{reply}").unwrap();
        }
        assert_eq!(lines.next().unwrap().unwrap(), "cmd=finalize");
        stopped.recv().unwrap();
        writeln!(writer, "{}", SLURM.finalize).unwrap();
    });
    let mut client = PmiClient::from_fd(ours.into(), 1, 4, Version::V1, None).unwrap();
    for _ in 0..3 {
        assert!(!client.finalize_poll().unwrap());
        assert!(client.answer().unwrap().is_none());
    }
    for error in [client.put_str("late", "x"), client.ask_failed(), client.barrier_begin()] {
        assert!(matches!(error, Err(PmiError::State { .. })), "{error:?}");
    }
    stop.send(()).unwrap();
    server.join().unwrap();
    // The blocking call continues a polled one.
    client.finalize().unwrap();
    assert!(client.finalize_poll().unwrap());
    // The launcher has closed the connection, as it may.
    assert!(client.answer().unwrap().is_none());
}

#[test]
fn long_names_leave_lines_within_the_limit() {
    let name: &'static str = Box::leak(format!("cmd=my_kvsname kvsname={}", "n".repeat(256)).into());
    let (client, server) = start(Dialect { name, ..SLURM });
    let mut client = client.unwrap();
    let key = "k".repeat(200);
    let value = vec![0xa5; 100_000];
    client.put_bytes(&key, &value).unwrap();
    assert_eq!(client.get_bytes(&key).unwrap().unwrap(), value);
    drop(client);
    let longest = server.join().unwrap().iter().map(|line| line.len() + 1).max().unwrap();
    assert!(longest <= MAX_REQUEST && longest > 900, "{longest}");
}

#[test]
fn small_announced_limits_are_respected() {
    let maxes = "cmd=maxes kvsname_max=64 keylen_max=32 vallen_max=128";
    let (client, server) = start(Dialect { maxes, ..HYDRA4 });
    let mut client = client.unwrap();
    client.put_bytes("k", &[7; 1000]).unwrap();
    assert_eq!(client.get_bytes("k").unwrap().unwrap(), [7; 1000]);
    let error = client.put_bytes(&"k".repeat(26), b"").unwrap_err();
    assert!(error.to_string().contains("1 to 25 characters"), "{error}");
    drop(client);
    for line in server.join().unwrap() {
        let line = crate::wire::Line::parse(line.as_bytes()).unwrap();
        assert!(line.get("value").unwrap_or_default().len() < 128);
        assert!(line.get("key").unwrap_or_default().len() < 32);
    }
}

#[test]
fn what_cannot_be_sent_is_refused_before_it_is_sent() {
    let (client, server) = start(HYDRA4);
    let mut client = client.unwrap();
    for key in ["", "a b", "a=b", "a~1", "a\n", "\u{e9}", &"k".repeat(64)] {
        let error = client.put_bytes(key, b"x").unwrap_err();
        assert!(matches!(error, PmiError::Argument { .. }), "{key}: {error}");
        client.get_str(key).unwrap_err();
    }
    for value in ["", "a b", "a=b", "x\ncmd=abort", &"v".repeat(1000)] {
        let error = client.put_str("k", value).unwrap_err();
        assert!(matches!(error, PmiError::Argument { .. }), "{error}");
    }
    let error = client.put_bytes("k", &vec![0; codec::MAX_VALUE + 1]).unwrap_err();
    assert!(error.to_string().contains("limit of 1048576"), "{error}");
    drop(client);
    assert_eq!(server.join().unwrap().len(), 4, "only the start was sent");
}

#[test]
fn a_lost_or_cut_chunk_is_an_error_that_says_so() {
    let (client, server) = start(HYDRA4);
    let mut client = client.unwrap();
    for text in codec::encode(&[1; 2000], 800).unwrap().iter().take(1) {
        client.put_str("lost", text).unwrap();
    }
    let error = client.get_bytes("lost").unwrap_err();
    assert!(matches!(&error, PmiError::Corrupt { key, .. } if key == "lost"));
    assert!(error.to_string().contains("chunk 1 of 4 is missing"), "{error}");
    client.put_str("cut", &codec::encode(&[1; 300], 800).unwrap()[0][..300]).unwrap();
    let error = client.get_bytes("cut").unwrap_err();
    assert!(error.to_string().contains("truncated"), "{error}");
    // The connection itself is intact.
    assert_eq!(client.get_bytes("other").unwrap(), None);
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_refusal_quotes_the_launcher() {
    let (client, _server) = start(Dialect { put: "cmd=put_result rc=-1 msg=duplicate_key_x", ..HYDRA4 });
    let error = client.unwrap().put_str("x", "y").unwrap_err();
    assert!(matches!(error, PmiError::Refused { .. }));
    assert!(error.to_string().contains("duplicate_key_x"), "{error}");
    let (client, _server) =
        start(Dialect { init: "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1", ..HYDRA4 });
    assert!(matches!(client.unwrap_err(), PmiError::Refused { .. }));
}

#[test]
fn malformed_answers_are_quoted_and_stay_fatal() {
    for (dialect, quoted) in [
        (Dialect { init: "what do you want?", ..HYDRA4 }, "what do you want?"),
        (Dialect { init: "cmd=maxes rc=0", ..HYDRA4 }, "cmd=response_to_init is due"),
        (Dialect { init: "cmd=response_to_init rc=0", ..HYDRA4 }, "the version is not 1"),
        (Dialect { init: "cmd=response_to_init pmi_version=1", ..HYDRA4 }, "there is no rc"),
        (Dialect { maxes: "cmd=maxes keylen_max=64", ..HYDRA4 }, "a limit is missing"),
        (Dialect { appnum: "cmd=appnum appnum=none", ..HYDRA4 }, "there is no number"),
        (Dialect { name: "cmd=my_kvsname kvsname=", ..HYDRA4 }, "no usable name"),
    ] {
        let error = start(dialect).0.unwrap_err();
        assert!(matches!(error, PmiError::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(quoted), "{error}");
    }
    let (client, _server) = start(Dialect { put: "cmd=barrier_out", ..HYDRA4 });
    let mut client = client.unwrap();
    client.put_str("k", "v").unwrap_err();
    let error = client.get_str("k").unwrap_err();
    assert!(matches!(error, PmiError::State { .. }) && error.to_string().contains("failed before"));
}

#[test]
fn an_endless_answer_is_cut_off() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let mut sent = 0usize;
        while theirs.write_all(&[b'x'; 4096]).is_ok() {
            sent += 4096;
        }
        sent
    });
    let error = PmiClient::from_fd(ours.into(), 0, 1, Version::V1, None).unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
    assert!(server.join().unwrap() > crate::wire::MAX_LINE / 2);
}

#[test]
fn a_silent_launcher_is_a_timeout_and_a_closed_one_is_told() {
    let (client, _server) = start(Dialect { put: "", ..HYDRA4 });
    let mut client = client.unwrap();
    client.set_reply_timeout(Duration::from_millis(30));
    let error = client.put_str("k", "v").unwrap_err();
    assert!(matches!(error, PmiError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("30ms while storing a value"), "{error}");

    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let error = PmiClient::from_fd(ours.into(), 0, 1, Version::V1, None).unwrap_err();
    assert!(matches!(error, PmiError::Closed { .. }), "{error}");
    let error: io::Error = error.into();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_barrier_can_be_polled_and_forbids_other_calls_meanwhile() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut gate = theirs.try_clone().unwrap();
    let server = serve(Dialect { barrier: "", ..HYDRA4 }, theirs);
    let mut client = PmiClient::from_fd(ours.into(), 0, 2, Version::V1, None).unwrap();
    assert!(client.barrier_poll().is_err(), "no barrier has begun");
    client.barrier_begin().unwrap();
    assert!(client.barrier_begin().is_err() && client.in_barrier());
    assert!(client.put_str("k", "v").is_err());
    assert!(client.finalize().is_err());
    for _ in 0..3 {
        assert!(!client.barrier_poll().unwrap());
    }
    // The line comes in two pieces.
    gate.write_all(b"cmd=barr").unwrap();
    assert!(!client.barrier_poll().unwrap());
    gate.write_all(b"ier_out\n").unwrap();
    assert!(client.barrier_poll().unwrap());
    assert!(client.barrier_poll().is_err() && !client.in_barrier(), "it is over");
    client.put_str("k", "v").unwrap();
    // A blocking call continues a barrier that has begun.
    client.barrier_begin().unwrap();
    gate.write_all(b"cmd=barrier_out\n").unwrap();
    client.barrier().unwrap();
    client.barrier_begin().unwrap();
    client.abort(7).unwrap();
    drop((client, gate));
    let requests = server.join().unwrap();
    assert_eq!(requests.iter().filter(|line| *line == "cmd=barrier_in").count(), 3);
    assert_eq!(requests.last().unwrap(), "cmd=abort exitcode=7");
}

#[test]
fn the_port_handshake_of_both_hydras_is_understood() {
    for initack in ["cmd=initack\n", "cmd=initack rc=0 rank=0 size=2 appnum=0 debug=0\n"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 64];
            let count = stream.read(&mut asked).unwrap();
            assert_eq!(&asked[..count], b"cmd=initack pmiid=42\n");
            let sets = "cmd=set size=2\ncmd=set rank=1\ncmd=set debug=0\n";
            stream.write_all(format!("{initack}{sets}").as_bytes()).unwrap();
            for reply in [HYDRA4.init, HYDRA4.maxes, HYDRA4.appnum, HYDRA4.name] {
                assert!(stream.read(&mut asked).unwrap() > 0);
                stream.write_all(format!("{reply}\n").as_bytes()).unwrap();
            }
        });
        let client = PmiClient::connect_port(&address, "42", Version::V1).unwrap();
        assert_eq!((client.rank(), client.size()), (1, 2));
        server.join().unwrap();
    }
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = PmiClient::connect_port(&gone.to_string(), "0", Version::V1).unwrap_err();
    assert!(error.to_string().contains(&gone.to_string()), "{error}");
}

#[test]
fn a_descriptor_that_is_no_connection_is_an_error() {
    let file = std::fs::File::open("/dev/null").unwrap();
    for (fd, why) in [(1_000_000, "1000000"), (file.as_raw_fd(), "not a socket")] {
        let error = PmiClient::from_inherited_fd(fd, 0, 1, Version::V1, None).unwrap_err();
        assert!(matches!(error, PmiError::Environment { var: "PMI_FD", .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn damaged_conversations_end_in_a_value_or_an_error() {
    let value = format!("{}{}", HYDRA5.hit, codec::encode(b"abc", 100).unwrap()[0]);
    let replies = [HYDRA5.init, HYDRA4.maxes, SLURM.appnum, HYDRA4.name, &value];
    let whole = replies.join("\n") + "\n";
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut bytes = Vec::new();
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        random.damage(whole.as_bytes(), &mut bytes);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&bytes).unwrap();
        // The server sends no more, but reads on.
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        match PmiClient::from_fd(ours.into(), 0, 4, Version::V1, None)
            .and_then(|mut client| client.get_bytes("k"))
        {
            Ok(value) => {
                good += 1;
                // The checksum detects damage to the value itself.
                assert!(value.is_none_or(|value| value == b"abc"));
            }
            Err(error) => {
                bad += 1;
                assert!(error.to_string().len() < 2000);
            }
        }
    }
    assert!(good > 1000 && bad > 1000, "{good} good, {bad} bad");
}
