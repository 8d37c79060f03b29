//! Jobs whose ranks were started with different settings: both ends of a VC come to the same
//! choice, or say why not.

use std::os::fd::RawFd;
use std::process::Command;
use std::sync::Arc;

use ch3_shim::Config;
use ch3_shim::netset::NetSet;
use ch3_shim::{Bootstrap, BootstrapError, Builder, Device};
use netmod_core::{Card, CardWriter};
use netmod_tests::board::run_devices;
use netmod_tests::factory::{Capabilities, Job, NetmodFactory, Ofi, Tcp};
use netmod_tests::jobs::launch::{self, Outcome, run};

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

/// A job of which each rank has its own value of a variable.
fn by_rank(variable: &str, values: &[&str], env: &[(&str, &str)], case: &[&str]) -> Outcome {
    let mut script = String::from("case $PMI_RANK in ");
    for (rank, value) in values.iter().enumerate() {
        script.push_str(&format!("{rank}) export {variable}='{value}';; "));
    }
    script.push_str("esac; exec \"$@\"");
    let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
    c.args(["-n", &values.len().to_string(), "sh", "-c", &script, "sh", JOB]).args(case);
    run(c.envs(env.iter().copied()))
}

/// The netmod that each rank has for each other one, as `choices` says it.
#[track_caller]
fn expect_netmods(done: &Outcome, ranks: u32, netmod: impl Fn(u32, u32) -> &'static str) {
    done.expect_ok("choices", ranks);
    for me in 0..ranks {
        for peer in (0..ranks).filter(|r| *r != me) {
            let line = format!("rank {me}: with rank {peer} by {}: ", netmod(me, peer));
            assert!(done.output.contains(&line), "no line \"{line}\" in {done}");
        }
    }
}

/// The order of the rank with the lesser name counts: of the lesser rank.
#[test]
fn ranks_with_other_orders_agree() {
    for (values, netmod) in [
        (&["shm,tcp", "tcp,shm"][..], &["shm"][..]),
        (&["tcp,shm", "shm,tcp"], &["tcp"]),
        (&["shm,tcp", "tcp"], &["tcp"]),
        (&["tcp", "shm,tcp"], &["tcp"]),
        // The lesser rank of each pair decides.
        (&["shm,tcp", "shm,tcp", "tcp,shm", "shm,tcp"], &["shm", "shm", "tcp"]),
        (&["tcp", "shm,tcp", "tcp,shm", "shm,tcp"], &["tcp", "shm", "tcp"]),
    ] {
        let ranks = values.len() as u32;
        by_rank("NETMOD", values, &[], &["alltoall"]).expect_ok("alltoall", ranks);
        let done = by_rank("NETMOD", values, &[], &["choices"]);
        expect_netmods(&done, ranks, |a, b| netmod[a.min(b) as usize]);
    }
}

/// libfabric's order, its providers included.
#[test]
fn ranks_with_other_orders_agree_over_libfabric() {
    let test = "ranks_with_other_orders_agree_over_libfabric";
    if !(Ofi { provider: "tcp", library: "", max_bytes: 0, many: 0 }).is_available(test) {
        return;
    }
    let env = [("NETMOD_OFI_PROVIDER", "tcp")];
    for (values, netmod) in [(&["ofi,tcp", "tcp,ofi"], "ofi"), (&["tcp,ofi", "ofi,tcp"], "tcp")] {
        by_rank("NETMOD", values, &env, &["alltoall"]).expect_ok("alltoall", 2);
        expect_netmods(&by_rank("NETMOD", values, &env, &["choices"]), 2, |_, _| netmod);
    }
}

/// Settings that each end may choose, or that one tells the other: the job works with other values
/// too.
#[test]
fn ranks_with_other_settings_understand_each_other() {
    let dir = std::env::temp_dir();
    let dir = dir.to_str().expect("a name in UTF-8");
    for netmod in ["shm,tcp", "tcp"] {
        for (variable, values) in [
            ("NETMOD_EAGER_MAX", ["1K", "256K"]),
            ("NETMOD_EAGER_WINDOW", ["64K", "4M"]),
            ("NETMOD_RTS_MAX", ["1", "5000"]),
            ("NETMOD_UNEXPECTED_MAX", ["1M", "64M"]),
            ("NETMOD_LMT", ["null", "get"]),
            ("NETMOD_LMT", ["coop", "put"]),
            ("NETMOD_LMT_MIN", ["1", "1G"]),
            ("NETMOD_CHECKSUM", ["on", "off"]),
            ("NETMOD_SHM_DIR", ["/dev/shm", dir]),
            ("NETMOD_SHM_RANKS", ["2", "0"]),
            ("NETMOD_SHM_JOINT", ["on", "off"]),
            ("NETMOD_TCP_RAILS_LOOPBACK", ["3", "0"]),
            ("NETMOD_TCP_RAILS", ["1", "8"]),
            ("NETMOD_TCP_RESUME_LOCAL", ["yes", "no"]),
            ("NETMOD_TCP_RESUME_TIMEOUT", ["0s", "10s"]),
            ("NETMOD_TCP_DETECT", ["0s", "1s"]),
        ] {
            for values in [values, [values[1], values[0]]] {
                let done = by_rank(variable, &values, &[("NETMOD", netmod)], &["alltoall", "2000000"]);
                done.expect_ok("alltoall", 2);
            }
        }
    }
}

#[test]
fn ranks_with_other_settings_understand_each_other_over_libfabric() {
    let test = "ranks_with_other_settings_understand_each_other_over_libfabric";
    let there = |provider| Ofi { provider, library: "", max_bytes: 0, many: 0 }.is_available(test);
    if !there("tcp") || !there("shm") {
        return;
    }
    for (variable, values) in [
        // No provider in common: the next netmod carries the messages.
        ("NETMOD_OFI_PROVIDER", ["tcp", "shm"]),
        ("NETMOD_OFI_FRAME", ["2K", "64K"]),
        ("NETMOD_OFI_WINDOW", ["8K", "1M"]),
        ("NETMOD_OFI_RX_MEMORY", ["64K", "4M"]),
        ("NETMOD_OFI_WAIT", ["fd", "none"]),
    ] {
        for values in [values, [values[1], values[0]]] {
            let env = [("NETMOD", "ofi,tcp"), ("NETMOD_OFI_PROVIDER", "tcp")];
            by_rank(variable, &values, &env, &["alltoall"]).expect_ok("alltoall", 2);
        }
    }
}

/// Settings that must be alike, and differ, give an error that names both.
#[test]
fn another_number_of_engines_is_an_error() {
    let done = by_rank("NETMOD_ENGINES", &["1", "2"], &[], &["threads", "2", "4"]);
    assert!(!done.status.success(), "{done}");
    let line = "rank 0 has 1 engines and this process 2: all need the same thread level and NETMOD_ENGINES";
    assert!(done.output.contains(line), "{done}");
}

/// Nothing in common: one line names both orders and the way out.
#[test]
fn ranks_without_a_common_netmod_say_so() {
    let done = by_rank("NETMOD", &["shm", "tcp"], &[], &["ring", "3"]);
    assert!(!done.status.success(), "{done}");
    let told =
        |l: &&str| ["no netmod", "NETMOD is shm here and tcp there"].iter().all(|part| l.contains(part));
    assert!(done.output.lines().any(|l| told(&l)), "{done}");
}

/// A process manager that shows a rank another card of its peers than they have published: with the
/// section `device` of its own. So the rank takes its own order for theirs.
struct Mistaken {
    inner: Box<dyn Bootstrap>,
    own: Vec<u8>,
}

impl Mistaken {
    fn altered(&self, bytes: &[u8]) -> Vec<u8> {
        let (own, card) = (Card::parse(&self.own).expect("a card"), Card::parse(bytes).expect("a card"));
        let mut w = CardWriter::new();
        for s in card.sections() {
            let body =
                if s.name == "device" { own.section(s.name).expect("the section").body } else { s.body };
            w.section(s.name, s.version, body).expect("it fits");
        }
        w.finish()
    }
}

impl Bootstrap for Mistaken {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }
    fn size(&self) -> u32 {
        self.inner.size()
    }
    fn job_id(&self) -> String {
        self.inner.job_id()
    }
    fn local_size(&self) -> u32 {
        self.inner.local_size()
    }
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), BootstrapError> {
        if key.starts_with("netmod-card-") {
            self.own = value.to_vec();
        }
        self.inner.put(key, value)
    }
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, BootstrapError> {
        let value = self.inner.get(key)?;
        let is_card = key.starts_with("netmod-card-");
        Ok(value.map(|bytes| if is_card { self.altered(&bytes) } else { bytes }))
    }
    fn barrier_begin(&mut self) -> Result<(), BootstrapError> {
        self.inner.barrier_begin()
    }
    fn barrier_poll(&mut self) -> Result<bool, BootstrapError> {
        self.inner.barrier_poll()
    }
    fn fd(&self) -> Option<RawFd> {
        self.inner.fd()
    }
    fn finalize_poll(&mut self) -> Result<bool, BootstrapError> {
        self.inner.finalize_poll()
    }
    fn abort(&mut self, code: i32, message: &str) -> i32 {
        self.inner.abort(code, message)
    }
}

/// Two ranks, each with netmods of its own; rank 1 takes rank 0's for the same as its own.
struct AtOdds([&'static [&'static str]; 2]);

impl NetmodFactory for AtOdds {
    fn name(&self) -> String {
        format!("{:?}", self.0)
    }
    fn capabilities(&self) -> Capabilities {
        Tcp.capabilities()
    }
    fn config(&self) -> Config {
        let mut cfg = Tcp.config();
        cfg.ofi.provider = "tcp".into();
        cfg
    }
    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        Arc::new(JobAtOdds { netmods: self.0, tcp: Tcp.job(ranks) })
    }
}

struct JobAtOdds {
    netmods: [&'static [&'static str]; 2],
    tcp: Arc<dyn Job>,
}

impl Job for JobAtOdds {
    fn device(&self, boot: Box<dyn Bootstrap>, cfg: Config) -> ch3_shim::Result<Device> {
        let mut cfg = cfg;
        let rank = boot.rank();
        cfg.netmods = self.netmods[rank as usize].iter().map(|n| (*n).to_owned()).collect();
        let boot: Box<dyn Bootstrap> =
            if rank == 1 { Box::new(Mistaken { inner: boot, own: Vec::new() }) } else { boot };
        Builder::new(cfg, boot).build()
    }
    fn netmod(&self, rank: u32) -> NetSet {
        self.tcp.netmod(rank)
    }
}

/// The two ends differ in what they know of each other, and both connect at once: each is told so,
/// by either netmod.
#[test]
fn ends_that_have_chosen_differently_find_it_out() {
    let has_ofi = Ofi { provider: "tcp", library: "", max_bytes: 0, many: 0 }
        .is_available("ends_that_have_chosen_differently_find_it_out");
    for orders in [
        [&["shm", "tcp"], &["tcp", "shm"]],
        [&["tcp", "shm"], &["shm", "tcp"]],
        [&["ofi", "tcp"], &["tcp", "ofi"]],
    ] {
        if !has_ofi && orders[0].contains(&"ofi") {
            continue;
        }
        let errors = run_devices(
            &AtOdds(orders.map(|o| &o[..])),
            2,
            |_| {},
            |mut dev| {
                let (me, world) = (dev.rank() as i32, dev.world());
                // The VC is made here, before the peer's is heard of.
                let sent = dev.isend(vec![1; 100], 1 - me, 1, world).expect("a send that begins");
                let got = dev.recv(&mut [0; 100], 1 - me, 1, world);
                let error = got.expect_err("the peer has its end elsewhere").to_string();
                let _ = dev.wait(sent);
                let _ = dev.ack_failures();
                let _ = dev.finalize();
                error
            },
        );
        for (rank, error) in errors.iter().enumerate() {
            let order = orders[rank].join(",");
            for part in ["chose different netmods", &format!("NETMOD is {order} here and"), "leave out"] {
                assert!(error.contains(part), "rank {rank}: no \"{part}\" in {error}");
            }
        }
    }
}
