//! A rank that aborts while a peer writes into its memory, and whose launcher does not end it.

#![allow(unsafe_code)]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ch3_shim::Device;

use super::basic::place;
use super::launch::MARK;
use super::orphans::{launcher, signal};
use super::{Args, End, Result, launch};
use crate::stall::Stall;

/// Bytes of the message.
const LEN: usize = 1 << 20;
/// Longest time that a rank waits for the other one.
const LONG: Duration = Duration::from_secs(20);
/// Longest time that a writer is held back: longer than an abort waits for its launcher.
const HELD: Duration = Duration::from_secs(6);
/// The byte that fills memory which its owner has freed.
const POISON: u8 = 0xDB;

/// The folder by which the ranks tell each other their progress, with a file for each word.
#[derive(Debug)]
struct Words(PathBuf);

impl Words {
    fn open() -> Result<Words> {
        let folder = std::env::temp_dir().join(format!("netmod-ending-{}", std::env::var(MARK)?));
        std::fs::create_dir_all(&folder)?;
        Ok(Words(folder))
    }

    fn say(&self, word: &str) -> std::io::Result<()> {
        std::fs::write(self.0.join(word), [])
    }

    fn is_said(&self, word: &str) -> bool {
        self.0.join(word).exists()
    }

    /// Waits for a word, for so long. Returns true if it was said.
    fn wait(&self, word: &str, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while !self.is_said(word) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.is_said(word)
    }
}

/// The receive's memory, by its address, for the exit handler.
static LENT: OnceLock<(usize, Words)> = OnceLock::new();

/// Frees the memory of the receive as a program's destructors would, and sees whether it is written
/// to behind that.
extern "C" fn free_at_exit() {
    let Some((at, words)) = LENT.get() else { return };
    let at = *at as *mut u8;
    for i in 0..LEN {
        // SAFETY: the device leaks the buffer when the process exits, so that it stays allocated.
        // Whoever writes to it all the same is what this looks for; accesses are volatile.
        unsafe { at.add(i).write_volatile(POISON) };
    }
    let said = words.say("exits");
    words.wait("written", LONG);
    // SAFETY: as above.
    let changed = (0..LEN).filter(|i| unsafe { at.add(*i).read_volatile() } != POISON).count();
    println!("rank 1: {changed} freed bytes were written to ({said:?})");
    let _ = words.say("done");
}

/// Rank 0 puts a message into rank 1's memory, and is held back just before it writes. Rank 1
/// aborts, with its launcher stopped, so that it comes to its exit handlers.
pub(super) fn abort(dev: &mut Device, _: &Args) -> Result<End> {
    let (me, _) = place(dev);
    let world = dev.world();
    let words = Words::open()?;
    if me == 1 {
        let buf = vec![0; LEN];
        let at = buf.as_ptr() as usize;
        let _receive = dev.irecv(buf, 0, 1, world)?;
        while !words.is_said("held") {
            dev.progress()?;
            if words.is_said("impossible") {
                return Ok(End::Leave);
            }
        }
        signal(&launcher()?, libc::SIGSTOP)?;
        LENT.set((at, words)).map_err(|_| "the case runs once")?;
        // SAFETY: the function does not unwind but by a failing `println!`, which aborts.
        if unsafe { libc::atexit(free_at_exit) } != 0 {
            return Err("no exit handler".into());
        }
        return Ok(End::Abort(9));
    }
    let stall = match Stall::this_thread(libc::SYS_process_vm_writev) {
        Ok(stall) => stall,
        Err(why) => {
            words.say("impossible")?;
            launch::skip(&format!("SKIPPED: a late writer: no calls can be held back: {why}"));
            return Ok(End::Leave);
        }
    };
    let ours = Words::open()?;
    std::thread::spawn(move || {
        let end = Instant::now() + LONG;
        let mut first = true;
        while Instant::now() < end {
            let Some(held) = stall.held().expect("the kernel tells") else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            if std::mem::take(&mut first) {
                ours.say("held").expect("a file");
                ours.wait("exits", HELD);
            }
            stall.let_go(held).expect("the writer waits");
        }
    });
    let _send = dev.isend(vec![1; LEN], 1, 1, world)?;
    // The call that is held back is one of these; errors are what an aborted peer leaves behind.
    while !words.is_said("held") {
        let _ = dev.progress();
    }
    std::thread::sleep(Duration::from_millis(100));
    words.say("written")?;
    words.wait("done", LONG);
    let _ = std::fs::remove_dir_all(&words.0);
    signal(&launcher()?, libc::SIGCONT)?;
    std::thread::sleep(LONG);
    Err("the launcher did not end the job".into())
}
