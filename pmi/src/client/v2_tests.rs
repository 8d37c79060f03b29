//! The client against scripted PMI-2 servers: real dialects, and broken ones.

use super::*;
use crate::wire::tests::Random;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

/// The replies of one kind of server. `{V}` is replaced by the requested value.
#[derive(Clone, Copy)]
struct Dialect {
    init: &'static str,
    full: &'static str,
    job: &'static str,
    mapping: &'static str,
    put: &'static str,
    hit: &'static str,
    miss: &'static str,
    fence: &'static str,
    finalize: &'static str,
    /// True if the length is left-justified.
    left: bool,
}

const HYDRA4: Dialect = Dialect {
    init: "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0",
    full: "cmd=fullinit-response;pmi-version=2;pmi-subversion=0;rank=1;size=4;appnum=0;debugged=FALSE;pmiverbose=FALSE;rc=0;",
    job: "cmd=job-getid-response;jobid=kvs_22030_0_1055722970_vm;rc=0;",
    mapping: "cmd=info-getjobattr-response;found=TRUE;value=(vector,(0,1,1));rc=0;",
    put: "cmd=kvs-put-response;rc=0;",
    hit: "cmd=kvs-get-response;found=TRUE;value={V};rc=0;",
    miss: "cmd=kvs-get-response;found=FALSE;rc=0;",
    fence: "cmd=kvs-fence-response;rc=0;",
    finalize: "cmd=finalize-response;rc=0;",
    left: false,
};

const HYDRA5: Dialect = Dialect {
    init: "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0",
    hit: "cmd=kvs-get-response;rc=0;found=TRUE;value={V};",
    miss: "cmd=kvs-get-response;rc=1;",
    ..HYDRA4
};

const SLURM: Dialect = Dialect {
    init: "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0",
    full: "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=4;appnum=-1;debugged=FALSE;pmiverbose=FALSE;",
    job: "cmd=job-getid-response;rc=0;jobid=1.0;",
    mapping: "cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,2,2));",
    hit: "cmd=kvs-get-response;rc=0;found=TRUE;value={V};",
    miss: "cmd=kvs-get-response;rc=0;found=FALSE;",
    left: true,
    ..HYDRA4
};

/// Serves one client until it disconnects; returns the requests.
fn serve(dialect: Dialect, mut stream: UnixStream) -> JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut kvs = std::collections::HashMap::new();
        let mut requests = Vec::new();
        let mut first = Vec::new();
        let mut byte = [0];
        while !first.ends_with(b"\n") {
            if stream.read(&mut byte).unwrap() == 0 {
                return requests;
            }
            first.push(byte[0]);
        }
        assert_eq!(first, b"cmd=init pmi_version=2 pmi_subversion=0\n");
        writeln!(stream, "{}", dialect.init).unwrap();
        let mut length = [0; 6];
        while stream.read_exact(&mut length).is_ok() {
            let length: usize = std::str::from_utf8(&length).unwrap().trim().parse().unwrap();
            let mut request = vec![0; length];
            stream.read_exact(&mut request).unwrap();
            let request = String::from_utf8(request).unwrap();
            let words = crate::wire::Line::parse_frame(request.as_bytes()).unwrap();
            let key = words.get("key").unwrap_or_default().to_owned();
            let reply = match words.cmd() {
                "fullinit" => dialect.full.to_owned(),
                "job-getid" => dialect.job.to_owned(),
                "info-getjobattr" if key == "PMI_process_mapping" => dialect.mapping.to_owned(),
                "info-getjobattr" => dialect.miss.replace("kvs-get", "info-getjobattr"),
                "kvs-put" => {
                    kvs.insert(key, words.get("value").unwrap().to_owned());
                    dialect.put.to_owned()
                }
                "kvs-get" => {
                    assert_eq!(words.get("srcid"), Some("-1"));
                    kvs.get(&key).map_or(dialect.miss.to_owned(), |value| dialect.hit.replace("{V}", value))
                }
                "kvs-fence" => dialect.fence.to_owned(),
                "finalize" => dialect.finalize.to_owned(),
                "spawn" => "cmd=spawn-response;rc=0;jobid=1.0-1;nerrs=0;".to_owned(),
                "abort" => String::new(),
                other => panic!("unexpected {other}"),
            };
            requests.push(request);
            if reply.is_empty() {
                continue;
            }
            let count = reply.len();
            let framed =
                if dialect.left { format!("{count:<6}{reply}") } else { format!("{count:>6}{reply}") };
            if stream.write_all(framed.as_bytes()).is_err() {
                break;
            }
        }
        requests
    })
}

fn start(dialect: Dialect, job: Option<&str>) -> (Result<PmiClient, PmiError>, JoinHandle<Vec<String>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = serve(dialect, theirs);
    (PmiClient::from_fd(ours.into(), 1, 4, Version::V2, job), server)
}

#[test]
fn every_dialect_is_understood() {
    for (dialect, job, appnum) in [(HYDRA4, None, 0), (HYDRA5, None, 0), (SLURM, Some("1.0"), -1)] {
        let (client, server) = start(dialect, job);
        let mut client = client.unwrap();
        assert_eq!((client.rank(), client.size(), client.appnum()), (1, 4, appnum));
        assert!(dialect.job.contains(client.kvsname()) && client.version() == Version::V2);
        assert!(client.attribute("PMI_process_mapping").unwrap().unwrap().starts_with("(vector"));
        assert_eq!(client.attribute("PMI_dead_processes").unwrap(), None);
        assert_eq!(client.universe_size().unwrap(), None, "these servers do not tell");
        let value: Vec<u8> = (0..5000u32).map(|i| (i % 253) as u8).collect();
        client.put_bytes("card-1", &value).unwrap();
        client.put_bytes("empty", b"").unwrap();
        client.barrier().unwrap();
        assert_eq!(client.get_bytes("card-1").unwrap().unwrap(), value);
        assert_eq!(client.get_bytes("empty").unwrap().unwrap(), b"");
        assert_eq!(client.get_bytes("nope").unwrap(), None);
        client.finalize().unwrap();
        client.finalize().unwrap();
        assert!(matches!(client.put_str("late", "x").unwrap_err(), PmiError::State { .. }));
        drop(client);
        let requests = server.join().unwrap();
        assert!(requests.iter().all(|request| request.len() <= MAX_REQUEST));
        assert!(requests.iter().all(|request| !request.contains("=;")), "an empty value");
        let named = requests[0].contains("pmijobid=1.0;");
        assert_eq!(named, job.is_some(), "{}", requests[0]);
        assert_eq!(requests.iter().filter(|request| *request == "cmd=finalize;").count(), 1);
    }
}

/// Hydra 4 ends the job when it is asked for a value before the first fence.
#[test]
fn nothing_is_looked_up_before_the_first_fence() {
    let (client, server) = start(HYDRA4, None);
    let mut client = client.unwrap();
    client.put_str("k", "v").unwrap();
    assert_eq!(client.get_str("k").unwrap(), None);
    client.barrier_begin().unwrap();
    while !client.barrier_poll().unwrap() {}
    assert_eq!(client.get_str("k").unwrap().unwrap(), "v");
    client.abort(7).unwrap();
    drop(client);
    let requests = server.join().unwrap();
    let fence = requests.iter().position(|request| request == "cmd=kvs-fence;").unwrap();
    let get = requests.iter().position(|request| request.starts_with("cmd=kvs-get;")).unwrap();
    assert!(fence < get);
    assert!(requests.last().unwrap().starts_with("cmd=abort;isworld=TRUE;"));
}

/// Slurm names the job that has asked, and has the values for the new one from the beginning.
#[test]
fn jobs_are_asked_for_and_know_it() {
    let full = "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=4;appnum=-1;spawner-jobid=1.0;";
    for (dialect, job, spawned) in
        [(Dialect { full, ..SLURM }, Some("1.0-1"), true), (SLURM, Some("1.0"), false)]
    {
        let (client, server) = start(dialect, job);
        let mut client = client.unwrap();
        assert_eq!(client.is_spawned(), spawned);
        assert_eq!(client.parent_port().unwrap(), None, "nothing is stored there");
        let program = crate::SpawnProgram { path: "a".into(), ranks: 2, ..Default::default() };
        let wanted = crate::Spawn { programs: vec![program], values: Vec::new() };
        assert_eq!(client.spawn(&wanted).unwrap().as_deref(), Some("1.0-1"));
        drop(client);
        let requests = server.join().unwrap();
        assert_eq!(requests.iter().any(|request| request.starts_with("cmd=kvs-get;")), spawned);
        assert_eq!(
            requests.last().unwrap(),
            "cmd=spawn;ncmds=1;preputcount=0;subcmd=a;maxprocs=2;argc=0;infokeycount=0;"
        );
    }
}

#[test]
fn broken_servers_are_quoted() {
    let full = "cmd=fullinit-response;rc=0;pmi-version=2;rank=2;size=4;";
    for (dialect, quoted) in [
        (
            Dialect { init: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0", ..HYDRA4 },
            "NETMOD_PMI",
        ),
        (Dialect { init: "cmd=response_to_init pmi_version=1 rc=-1", ..HYDRA4 }, "not speak PMI-2"),
        (Dialect { init: "what?", ..HYDRA4 }, "what?"),
        (Dialect { full, ..HYDRA4 }, "rank 1 and size 4"),
        (Dialect { full: "cmd=fullinit-response;rank=1;size=4;", ..HYDRA4 }, "there is no rc"),
        (Dialect { full: "cmd=kvs-put-response;rc=0;", ..HYDRA4 }, "cmd=fullinit-response is due"),
        (Dialect { full: "no words", ..HYDRA4 }, "no words"),
        (Dialect { job: "cmd=job-getid-response;rc=0;jobid=;", ..HYDRA4 }, "no usable name"),
    ] {
        let error = start(dialect, None).0.unwrap_err();
        assert!(matches!(error, PmiError::Malformed { .. }), "{error}");
        assert!(error.to_string().contains(quoted), "{error}");
    }
    let full = "cmd=fullinit-response;rc=14;errmsg=unknown rank;";
    let error = start(Dialect { full, ..HYDRA4 }, None).0.unwrap_err();
    assert!(matches!(error, PmiError::Refused { .. }) && error.to_string().contains("unknown rank"));
    for (miss, refused) in [
        ("cmd=kvs-get-response;rc=3;found=FALSE;", true),
        ("cmd=kvs-get-response;found=FALSE;", false),
        ("cmd=kvs-get-response;rc=0;", false),
        ("cmd=kvs-get-response;rc=0;found=MAYBE;value=x;", false),
    ] {
        let (client, _server) = start(Dialect { miss, ..HYDRA4 }, None);
        let mut client = client.unwrap();
        client.barrier().unwrap();
        let error = client.get_str("nope").unwrap_err();
        assert_eq!(matches!(error, PmiError::Refused { .. }), refused, "{error}");
    }
}

#[test]
fn damaged_conversations_end_in_a_value_or_an_error() {
    let value = HYDRA4.hit.replace("{V}", &codec::encode(b"abc", 100).unwrap()[0]);
    let mut whole = format!("{}\n", HYDRA4.init);
    for reply in [HYDRA4.full, SLURM.job, HYDRA5.fence, &value] {
        whole += &format!("{:<6}{reply}", reply.len());
    }
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut bytes = Vec::new();
    let (mut good, mut bad) = (0, 0);
    for _ in 0..20_000 {
        random.damage(whole.as_bytes(), &mut bytes);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&bytes).unwrap();
        // The server sends no more, but reads on.
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let talk = || {
            let mut client = PmiClient::from_fd(ours.into(), 1, 4, Version::V2, None)?;
            client.barrier()?;
            client.get_bytes("k")
        };
        match talk() {
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
