//! The server without I/O: conversations, limits, barriers, and damaged lines.

use super::*;
use crate::wire::tests::Random;

#[derive(Default)]
struct Log(Vec<(u32, String)>);

impl Sink for Log {
    fn send(&mut self, rank: u32, line: &str) {
        assert!(line.ends_with('\n') && line.len() > 1);
        self.0.extend(line.lines().map(|line| (rank, line.to_owned())));
    }
}

struct Talk {
    server: Server,
    log: Log,
}

impl Talk {
    fn new(size: u32, tolerant: bool) -> Talk {
        let mut talk = Talk { server: Server::new("kvs".into(), size, tolerant), log: Log::default() };
        for rank in 0..size {
            assert_eq!(
                talk.say(rank, "cmd=init pmi_version=1 pmi_subversion=1"),
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
            );
        }
        talk
    }

    fn try_say(&mut self, rank: u32, line: &str) -> Result<Outcome, Fault> {
        self.server.line(rank, line.as_bytes(), &mut self.log)
    }

    /// Sends a line and returns the one reply.
    fn say(&mut self, rank: u32, line: &str) -> String {
        assert_eq!(self.try_say(rank, line), Ok(Outcome::Continue));
        let mut replies = std::mem::take(&mut self.log.0);
        assert_eq!(replies.len(), 1, "{replies:?}");
        let (to, reply) = replies.remove(0);
        assert_eq!(to, rank);
        reply
    }

    fn sent_to(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.log.0).into_iter().map(|(rank, _)| rank).collect()
    }
}

#[test]
fn a_conversation() {
    let mut talk = Talk::new(2, false);
    assert_eq!(talk.say(0, "cmd=get_maxes"), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024");
    assert_eq!(talk.say(0, "cmd=get_appnum"), "cmd=appnum appnum=0");
    assert_eq!(talk.say(0, "cmd=get_universe_size"), "cmd=universe_size size=2");
    assert_eq!(talk.say(0, "cmd=get_my_kvsname"), "cmd=my_kvsname kvsname=kvs");
    assert_eq!(
        talk.say(1, "cmd=get kvsname=kvs key=PMI_process_mapping"),
        "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))"
    );
    assert_eq!(talk.say(0, "cmd=put kvsname=kvs key=a value=1"), "cmd=put_result rc=0 msg=success");
    assert_eq!(talk.say(1, "key=a cmd=get kvsname=kvs"), "cmd=get_result rc=0 msg=success value=1");
    assert!(talk.say(1, "cmd=get kvsname=kvs key=b").starts_with("cmd=get_result rc=-1"));
    assert!(talk.say(1, "cmd=get kvsname=other key=a").starts_with("cmd=get_result rc=-1"));
    assert!(talk.say(0, "cmd=lookup_name service=x").starts_with("cmd=lookup_result info=failed rc=-1"));
    assert!(talk.say(0, "cmd=publish_name service=x port=p").starts_with("cmd=publish_result info=ok rc=0"));
    assert!(
        talk.say(1, "cmd=publish_name service=x port=q").starts_with("cmd=publish_result info=failed rc=-1")
    );
    assert_eq!(talk.say(1, "cmd=lookup_name service=x"), "cmd=lookup_result info=ok rc=0 port=p");
    assert!(talk.say(1, "cmd=unpublish_name service=x").starts_with("cmd=unpublish_result info=ok rc=0"));
    assert!(
        talk.say(1, "cmd=unpublish_name service=x").starts_with("cmd=unpublish_result info=failed rc=-1")
    );
    assert_eq!(talk.try_say(0, "cmd=barrier_in"), Ok(Outcome::Continue));
    assert!(talk.sent_to().is_empty());
    assert_eq!(talk.try_say(1, "cmd=barrier_in"), Ok(Outcome::Continue));
    assert_eq!(talk.sent_to(), [0, 1]);
    assert_eq!(talk.say(0, "cmd=finalize"), "cmd=finalize_ack");
    assert_eq!(talk.server.stage(0), Stage::Finalized);
    assert_eq!(talk.server.stage(1), Stage::Initialized);
    assert_eq!(talk.try_say(1, "cmd=abort exitcode=7"), Ok(Outcome::Abort { code: 7 }));
    assert_eq!(talk.try_say(1, "cmd=abort"), Ok(Outcome::Abort { code: 1 }));
}

#[test]
fn the_port_handshake_tells_rank_and_size() {
    let mut talk = Talk { server: Server::new("kvs".into(), 3, false), log: Log::default() };
    talk.try_say(2, "cmd=initack pmiid=9").unwrap();
    let lines: Vec<String> = talk.log.0.into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["cmd=initack", "cmd=set size=3", "cmd=set rank=2", "cmd=set debug=0"]);
}

#[test]
fn what_a_rank_may_store_is_bounded() {
    let mut talk = Talk::new(2, false);
    let mut put = |rank, key: &str, value: &str| {
        talk.say(rank, &format!("cmd=put kvsname=kvs key={key} value={value}"))
    };
    assert!(put(0, "a", &"v".repeat(VALUE_MAX - 1)).contains("rc=0"));
    assert!(put(0, "b", &"v".repeat(VALUE_MAX)).contains("rc=-1 msg=value_too_long"));
    assert!(put(0, &"k".repeat(KEY_MAX), "v").contains("rc=-1 msg=key_too_long"));
    assert!(put(0, "c", "").contains("rc=-1 msg=empty_value"));
    assert!(put(1, "a", "v").contains("rc=-1 msg=duplicate_key"));
    let value = "v".repeat(VALUE_MAX - 1);
    let refused = (0..).map(|i| put(0, &format!("k{i}"), &value)).position(|r| !r.contains("rc=0"));
    // A few megabytes, then refusals.
    assert!((3000..6000).contains(&refused.unwrap()), "{refused:?}");
    assert!(put(0, "last", &value).contains("msg=quota_exceeded"));
    assert!(put(1, "mine", &value).contains("rc=0"), "another rank has its own quota");
}

#[test]
fn breaking_the_protocol_is_that_ranks_fault() {
    for (line, why) in [
        ("nonsense", "key=value"),
        ("cmd=mystery", "does not know"),
        ("cmd=put kvsname=kvs key=a", "value="),
        ("cmd=get kvsname=kvs", "key="),
        ("cmd=init pmi_version=1", "second cmd=init"),
        ("cmd=init", "pmi_version="),
        ("mcmd=other", "no cmd="),
    ] {
        let mut talk = Talk::new(2, false);
        let fault = talk.try_say(1, line).unwrap_err();
        assert!(fault.why.contains(why) && fault.to_string().contains(line), "{fault}");
        assert!(talk.say(0, "cmd=get_appnum").contains("appnum=0"), "others are not affected");
    }
    let mut talk = Talk::new(2, false);
    talk.try_say(0, "cmd=barrier_in").unwrap();
    assert!(talk.try_say(0, "cmd=barrier_in").unwrap_err().why.contains("barrier_out"));
    assert!(talk.try_say(0, "mcmd=spawn").unwrap_err().why.contains("barrier_out"));
    talk.say(1, "cmd=finalize");
    assert!(talk.try_say(1, "cmd=barrier_in").unwrap_err().why.contains("finalize"));
    let mut server = Server::new("kvs".into(), 1, false);
    let fault = server.line(0, b"cmd=get_maxes", &mut Log::default()).unwrap_err();
    assert!(fault.why.contains("before cmd=init"));
    let mut log = Log::default();
    server.line(0, b"cmd=init pmi_version=2", &mut log).unwrap();
    assert!(log.0[0].1.ends_with("rc=-1"));
    assert_eq!(server.stage(0), Stage::Started);
}

#[test]
fn a_barrier_without_a_rank_that_is_gone_is_stuck() {
    let mut talk = Talk::new(3, false);
    talk.server.rank_gone(1, false, &mut talk.log);
    assert_eq!(talk.server.stuck_barrier(), None);
    talk.try_say(2, "cmd=barrier_in").unwrap();
    assert_eq!(talk.server.stuck_barrier(), Some((2, 1)));
    assert!(talk.sent_to().is_empty());
}

#[test]
fn a_tolerant_server_goes_on_without_the_dead() {
    let mut talk = Talk::new(4, true);
    assert!(talk.say(0, "cmd=get kvsname=kvs key=PMI_dead_processes").contains("rc=-1"));
    for rank in [0, 1, 3] {
        talk.try_say(rank, "cmd=barrier_in").unwrap();
    }
    // One dies inside the barrier, one outside.
    talk.server.rank_gone(3, true, &mut talk.log);
    talk.server.rank_gone(3, true, &mut talk.log);
    assert!(talk.sent_to().is_empty());
    talk.server.rank_gone(2, true, &mut talk.log);
    assert_eq!(talk.sent_to(), [0, 1]);
    assert_eq!(talk.server.stuck_barrier(), None);
    let dead = talk.say(0, "cmd=get kvsname=kvs key=PMI_dead_processes");
    assert!(dead.ends_with("value=2,3"), "{dead}");
    talk.try_say(1, "cmd=barrier_in").unwrap();
    talk.try_say(0, "cmd=barrier_in").unwrap();
    assert_eq!(talk.sent_to(), [0, 1]);
}

#[test]
fn millions_of_damaged_lines_do_no_harm() {
    let seeds = [
        &b"cmd=init pmi_version=1 pmi_subversion=1"[..],
        b"cmd=get_maxes",
        b"cmd=get_my_kvsname",
        b"cmd=put kvsname=kvs key=card-0 value=1.3.5c6d3a8e.1.AAEC",
        b"cmd=get kvsname=kvs key=card-0",
        b"cmd=barrier_in",
        b"cmd=initack pmiid=7",
        b"cmd=finalize",
        b"cmd=abort exitcode=3",
    ];
    let mut random = Random(0x0dd0_15ea_5e0f_5eed);
    let mut bytes = Vec::new();
    let (mut good, mut faults) = (0u32, 0u32);
    let mut talk = Talk::new(3, true);
    for round in 0..2_000_000u32 {
        if round % 64 == 0 {
            talk = Talk { server: Server::new("kvs".into(), 3, round % 128 == 0), log: Log::default() };
            for rank in 0..3 {
                talk.try_say(rank, "cmd=init pmi_version=1").unwrap();
            }
        }
        random.damage(seeds[random.0 as usize % seeds.len()], &mut bytes);
        let rank = random.below(3) as u32;
        match talk.server.line(rank, &bytes, &mut talk.log) {
            Ok(_) => good += 1,
            Err(fault) => {
                faults += 1;
                assert!(fault.line.len() < 1000 && !fault.why.is_empty());
            }
        }
        if random.below(50) == 0 {
            talk.server.rank_gone(rank, true, &mut talk.log);
        }
    }
    assert!(good > 100_000 && faults > 100_000, "{good} good, {faults} faults");
}

#[test]
fn programs_and_the_universe_are_told() {
    let mut talk = Talk::new(3, false);
    talk.server = std::mem::replace(&mut talk.server, Server::new("kvs".into(), 1, false))
        .programs(vec![0, 1])
        .universe(8);
    let said = [0, 1, 2].map(|rank| talk.say(rank, "cmd=get_appnum"));
    assert_eq!(said, ["cmd=appnum appnum=0", "cmd=appnum appnum=1", "cmd=appnum appnum=0"]);
    assert_eq!(talk.say(2, "cmd=get_universe_size"), "cmd=universe_size size=8");
}

#[test]
fn a_rank_asks_for_programs() {
    let mut talk = Talk::new(2, false);
    let program = crate::SpawnProgram { path: "p".into(), ranks: 2, ..Default::default() };
    let wanted = Spawn { programs: vec![program], values: vec![("key".into(), "value".into())] };
    let text = wanted.emit().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (last, first) = lines.split_last().unwrap();
    for line in first {
        // Lines of others may come between.
        assert_eq!(talk.try_say(0, line), Ok(Outcome::Continue));
        assert!(talk.say(1, "cmd=get kvsname=kvs key=b").starts_with("cmd=get_result rc=-1"));
    }
    assert_eq!(talk.try_say(0, last), Ok(Outcome::Spawn(wanted)));
    for (result, reply) in [
        (Ok("job_1".into()), "cmd=spawn_result rc=0 jobid=job_1 nerrs=0"),
        (Err("no a=b\nfor you"), "cmd=spawn_result rc=-1 msg=no a b for you"),
    ] {
        talk.server.spawned(0, result, &mut talk.log);
        assert_eq!(talk.log.0.pop(), Some((0, reply.into())));
    }
    let mut early = Talk { server: Server::new("kvs".into(), 1, false), log: Log::default() };
    assert!(early.try_say(0, "mcmd=spawn").is_err());
    let values = [("key".to_owned(), "value".to_owned())];
    let names = Names::default();
    names.note_end("job_1", 7);
    let mut talk = Talk::new(1, false);
    talk.server = talk.server.values(&values).names(names);
    assert_eq!(talk.say(0, "cmd=get kvsname=kvs key=key"), "cmd=get_result rc=0 msg=success value=value");
    assert_eq!(
        talk.say(0, "cmd=get kvsname=job_1 key=netmod_job_ended"),
        "cmd=get_result rc=0 msg=success value=7"
    );
}
