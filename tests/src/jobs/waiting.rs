//! Cases about waiting: what it costs while nothing comes, or while others have the processors.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use ch3_shim::Device;

use super::basic::{exchange, place};
use super::{Args, End, Result, sys};

/// Times that ranks sleep, if the first one was disturbed: on a busy machine a process is charged
/// for what others do to it.
const NAPS: u8 = 3;

/// All ranks but 0 wait for a message while rank 0 sleeps; again, if one of them has used more than
/// the given percentage of a processor.
pub(super) fn idle(dev: &mut Device, args: &Args) -> Result<End> {
    let nap = Duration::from_millis(args.get(0, 3000));
    let most = nap * (args.get(1, 1) as u32) / 100;
    let ((me, n), world) = (place(dev), dev.world());
    // Connections are up, and what they have to say has been said.
    dev.barrier(world)?;
    dev.barrier(world)?;
    let (mut least, mut word) = (Duration::MAX, [0]);
    for left in (0..NAPS).rev() {
        if me == 0 {
            std::thread::sleep(nap);
            (1..n).try_for_each(|rank| dev.send(&[1], rank, 0, world))?;
            let mut again = [0];
            for rank in 1..n {
                dev.recv(&mut word, rank, 1, world)?;
                again[0] |= left.min(1) & word[0];
            }
            (1..n).try_for_each(|rank| dev.send(&again, rank, 2, world))?;
            word = again;
        } else {
            let before = sys::cpu_time()?;
            dev.recv(&mut word, 0, 0, world)?;
            least = least.min(sys::cpu_time()?.saturating_sub(before));
            dev.send(&[u8::from(least > most)], 0, 1, world)?;
            dev.recv(&mut word, 0, 2, world)?;
        }
        if word == [0] {
            break;
        }
    }
    if me > 0 && least > most {
        return Err(format!(
            "waiting for {nap:?} took {least:?} of a processor, of which {most:?} is allowed"
        )
        .into());
    }
    Ok(End::Finalize)
}

/// Each rank knows whether others may use its cores, and the status report says so.
pub(super) fn cores(dev: &mut Device, args: &Args) -> Result<End> {
    let expected = args.get(0, 0) == 1;
    let said = dev.status().cores;
    if dev.shares_cores() != expected || said.contains("too few") != expected {
        return Err(format!("cores are shared: {}, instead of {expected}: {said}", dev.shares_cores()).into());
    }
    let world = dev.world();
    dev.barrier(world)?;
    Ok(End::Finalize)
}

/// Bytes of the segment of shared memory that this process has mapped: the file's length and what
/// is allocated of it; zeros if there is none.
fn segment(dev: &Device) -> Result<[u64; 2]> {
    let folder = Path::new(&dev.config().shm.dir);
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        // A descriptor that was open while the folder was listed may be closed by now.
        let Ok(file) = std::fs::read_link(&path) else { continue };
        // The link tells the name that the file had; for the rank that made it, the number that it
        // had before.
        let name = file.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if file.parent() == Some(folder) && (name.starts_with("netmod-") || name.starts_with('#')) {
            let meta = std::fs::metadata(&path)?;
            return Ok([meta.len(), meta.blocks() * 512]);
        }
    }
    Ok([0; 2])
}

/// All-to-all, after which rank 0 says what it took: memory that is shared, and how often all ranks
/// together have slept and were interrupted.
pub(super) fn crush(dev: &mut Device, args: &Args) -> Result<End> {
    let (len, rounds) = (args.get(0, 65_536) as usize, args.get(1, 2));
    let ((me, n), world) = (place(dev), dev.world());
    let [file, allocated] = segment(dev)?;
    dev.barrier(world)?;
    let before = sys::switches()?;
    for round in 0..rounds {
        exchange(dev, len, round)?;
    }
    let after = sys::switches()?;
    let mut sums = [after[0] - before[0], after[1] - before[1]];
    let bytes = |words: [u64; 2]| words.map(u64::to_le_bytes).concat();
    if me != 0 {
        dev.send(&bytes(sums), 0, 7, world)?;
        return Ok(End::Finalize);
    }
    for rank in 1..n {
        let mut theirs = [0; 16];
        dev.recv(&mut theirs, rank, 7, world)?;
        let (words, _) = theirs.as_chunks::<8>();
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum += u64::from_le_bytes(*word);
        }
    }
    let [slept, interrupted] = sums;
    println!("{n} ranks: slept {slept} interrupted {interrupted} segment {file} allocated {allocated}");
    Ok(End::Finalize)
}
