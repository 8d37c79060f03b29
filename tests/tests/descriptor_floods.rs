//! A flood of unauthenticated connections at a process that may have few descriptors: some always
//! stay the program's, and honest peers still connect.
//!
//! The process under attack is this program again, with a low limit: the other end of a flood takes
//! as many descriptors.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ch3_shim::Device;
use netmod_tests::board::run_job_with;
use netmod_tests::jobs::tap::Tap;

/// Set in the process under attack.
const VICTIM: &str = "NETMOD_TEST_FLOODED";
/// Its limit of descriptors, and how many its program opens at once.
const LIMIT: &str = "128";
const OPENS: usize = 16;
const HOME: &str = "home ";

/// Traffic of two ranks that connect anew again and again, while the program opens files, until
/// `stop`.
fn traffic(dev: &mut Device, stop: &AtomicBool) -> u64 {
    let (me, world) = (dev.rank(), dev.world());
    let peer = 1 - me as i32;
    for round in 0u64.. {
        if me == 0 {
            let files: Vec<_> = (0..OPENS).map(|_| std::fs::File::open("/dev/null")).collect();
            let failed = files.iter().filter_map(|f| f.as_ref().err()).next();
            assert!(failed.is_none(), "the program's own open in round {round}: {failed:?}");
        }
        // Rank 0 decides, so that both make as many rounds.
        let mut over = [u8::from(stop.load(Ordering::SeqCst))];
        if me == 0 {
            dev.send(&over, peer, 1, world).expect("a send");
        } else {
            dev.recv(&mut over, peer, 1, world).expect("a receive");
        }
        if over == [1] {
            return round;
        }
        if round % 4 == 3 {
            dev.disconnect(peer as u32).expect("an orderly disconnect");
        }
    }
    unreachable!("the rounds have no end")
}

#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        // Run by the test below.
        return;
    }
    let tap = Tap::default();
    let stop = Arc::new(AtomicBool::new(false));
    let (told, asked) = (tap.clone(), Arc::clone(&stop));
    std::thread::spawn(move || {
        for (home, _) in told.homes(2) {
            println!("{HOME}{home}");
        }
        // The other side closes the pipe when it has had enough.
        let _ = std::io::stdin().read(&mut [0]);
        asked.store(true, Ordering::SeqCst);
    });
    let rounds = run_job_with(&tap, 2, |_| {}, move |dev| traffic(dev, &stop));
    assert!(rounds[0] > 8, "{rounds:?}");
    println!("survived");
}

#[test]
fn the_program_keeps_its_descriptors() {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -n {LIMIT}; exec \"$0\" --exact victim --nocapture")])
        .arg(program)
        .env(VICTIM, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let homes: Vec<SocketAddr> =
        (&mut lines).filter_map(|line| line.split_once(HOME)?.1.trim().parse().ok()).take(2).collect();
    assert_eq!(homes.len(), 2, "the process has not begun");
    let said: [&[u8]; 3] = [b"GET / HTTP/1.1\r\n\r\n", b"", &[0x93, b'N', b'M', b'T', 1, 0]];
    let mut held = VecDeque::new();
    let end = Instant::now() + Duration::from_secs(60);
    let (mut made, mut n) = (0, 0);
    while made < 2000 && Instant::now() < end {
        n += 1;
        // With its queue of connections full, the listener does not answer.
        let Ok(mut s) = TcpStream::connect_timeout(&homes[n % 2], Duration::from_secs(2)) else { continue };
        // It may have closed already.
        let _ = s.write_all(said[n % 3]);
        held.push_back(s);
        made += 1;
        // The process under attack makes rounds meanwhile.
        std::thread::sleep(Duration::from_millis(1));
        if held.len() > 300 {
            held.pop_front();
        }
    }
    drop(child.stdin.take());
    let rest: Vec<String> = lines.collect();
    let status = child.wait().expect("its end");
    assert!(status.success() && rest.iter().any(|l| l.contains("survived")), "{status}: {rest:?}");
    assert!(made > 500, "only {made} connections were made");
}
