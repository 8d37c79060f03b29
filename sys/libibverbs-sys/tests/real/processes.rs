//! Tests with two processes: this program and a second copy of it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use netmod_libibverbs_sys::attr::ibv_gid;
use netmod_libibverbs_sys::consts::*;

use crate::pattern;
use crate::side::*;

/// Environment variable that makes this program the peer.
const PEER: &str = "NETMOD_TEST_VERBS_PEER";
/// Prefix of the lines between the two processes: the test harness writes to the same pipe.
const MARK: &str = "peer: ";

fn words(address: &Address) -> String {
    let gid: String = address.gid.raw.iter().map(|b| format!("{b:02x}")).collect();
    format!("{MARK}{} {} {gid} {} {}", address.qpn, address.psn, address.addr, address.rkey)
}

/// Reads the other process's address from its line.
fn address(from: &mut impl BufRead) -> Address {
    let mut line = String::new();
    while !line.contains(MARK) {
        line.clear();
        assert!(from.read_line(&mut line).expect("a line") > 0, "the other process has ended");
    }
    let (_, said) = line.split_once(MARK).expect("the mark");
    let words: Vec<&str> = said.split_whitespace().collect();
    let &[qpn, psn, gid, addr, rkey] = words.as_slice() else { panic!("{said}") };
    let mut raw = [0; 16];
    for (i, byte) in raw.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&gid[2 * i..2 * i + 2], 16).expect("a GID");
    }
    let number = |word: &str| word.parse().expect("a number");
    Address {
        qpn: number(qpn),
        psn: number(psn),
        gid: ibv_gid { raw },
        addr: addr.parse().expect("an address"),
        rkey: number(rkey),
    }
}

#[test]
fn an_address_is_read_as_it_was_written() {
    let all = Address {
        qpn: 17,
        psn: 0xff_ffff,
        gid: ibv_gid { raw: core::array::from_fn(|i| i as u8 * 17) },
        addr: u64::MAX,
        rkey: 1,
    };
    let text = format!("running 1 test\ntest x ... {}\n", words(&all));
    assert_eq!(address(&mut text.as_bytes()), all);
}

/// The peer: reports its address, echoes each message, and ends when the pipe is closed.
fn peer() {
    let device = Device::open();
    let side = Side::new(&device, IBV_QPT_RC);
    side.receive(0..SLOTS);
    println!("\n{}", words(&side.address()));
    let mut input = BufReader::new(std::io::stdin());
    side.connect(&address(&mut input), PATIENT);
    println!("\n{}", words(&side.address()));
    loop {
        let wc = side.done(IBV_WC_RECV);
        let at = SLOTS_AT + wc.wr_id as usize * SLOT;
        if wc.byte_len == 0 {
            // The other side checks the memory that it has written, and reads this side's.
            let mebibyte = side.get(0, DATA);
            side.put(0, &mebibyte.iter().map(|b| !b).collect::<Vec<_>>());
        }
        side.post(IBV_WR_SEND_WITH_IMM, IBV_SEND_SIGNALED, at, wc.byte_len as usize, |wr| {
            wr.imm_data = wc.imm_data
        });
        side.done(IBV_WC_SEND);
        side.receive(wc.wr_id as usize..wc.wr_id as usize + 1);
    }
}

/// The peer process, as its parent sees it.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the peer, and connects a side with it.
    fn start(test: &str, side: &Side<'_>, patience: Patience) -> (Peer, Address) {
        let this = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(this);
        command.args(["--exact", test, "--include-ignored", "--nocapture"]).env(PEER, "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut peer = Peer { child, input, output };
        let to = address(&mut peer.output);
        side.connect(&to, patience);
        writeln!(peer.input, "{}", words(&side.address())).expect("it lives");
        // The repeated line says that the peer is connected.
        assert_eq!(address(&mut peer.output), to);
        (peer, to)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn two_processes_send_write_and_read() {
    if std::env::var_os(PEER).is_some() {
        return peer();
    }
    let device = Device::open();
    let side = Side::new(&device, IBV_QPT_RC);
    side.receive(0..SLOTS);
    let (_peer, to) = Peer::start("processes::two_processes_send_write_and_read", &side, PATIENT);
    for len in [1, INLINE, SLOT] {
        let bytes = pattern(len, len);
        side.put(SEND_AT, &bytes);
        let inline = if len <= INLINE { IBV_SEND_INLINE } else { 0 };
        side.post(IBV_WR_SEND_WITH_IMM, inline, SEND_AT, len, |wr| wr.imm_data = (len as u32).to_be());
        let answer = side.done(IBV_WC_RECV);
        assert_eq!((answer.byte_len as usize, u32::from_be(answer.imm_data)), (len, len as u32));
        assert_eq!(side.get(SLOTS_AT + answer.wr_id as usize * SLOT, len), bytes);
    }
    let bytes = pattern(DATA, 9);
    side.put(0, &bytes);
    side.post(IBV_WR_RDMA_WRITE, 0, 0, DATA, |wr| {
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (to.addr, to.rkey)
    });
    // An empty message, which does not overtake the write.
    side.post(IBV_WR_SEND_WITH_IMM, 0, 0, 0, |_| ());
    side.done(IBV_WC_RECV);
    side.put(0, &vec![0; DATA]);
    side.post(IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 0, DATA, |wr| {
        (wr.wr.rdma.remote_addr, wr.wr.rdma.rkey) = (to.addr, to.rkey);
    });
    side.done(IBV_WC_RDMA_READ);
    assert!(side.get(0, DATA).iter().zip(&bytes).all(|(a, b)| *a == !b));
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_process_that_is_killed_does_not_answer() {
    if std::env::var_os(PEER).is_some() {
        return peer();
    }
    let device = Device::open();
    let side = Side::new(&device, IBV_QPT_RC);
    // Two attempts of 0.5 s.
    let patience = Patience { timeout: 17, retry_cnt: 1, ..PATIENT };
    let (mut peer, _) = Peer::start("processes::a_process_that_is_killed_does_not_answer", &side, patience);
    peer.child.kill().expect("it lives");
    peer.child.wait().expect("it has ended");
    side.post(IBV_WR_SEND, IBV_SEND_SIGNALED, 0, 8, |_| ());
    assert_eq!(side.next().status, IBV_WC_RETRY_EXC_ERR);
    assert_eq!(side.state(), IBV_QPS_ERR);
}
