//! Jobs of several ranks, and buffers of their messages.

use std::sync::Arc;

use netmod_mpi::consts::THREAD_SERIALIZED;
use netmod_mpi::handle::{Comm, Datatype};
use netmod_mpi::{Anytime, Buf, Codes, Mpi, Result, Status};
use netmod_tests::board::run_devices;
use netmod_tests::factory::Loopback;
use netmod_tests::loopback::Options;

pub const INT: Datatype = Datatype(0x4c00_0405);
pub const WORLD: Comm = Comm::WORLD;

/// Runs a job at a thread level, and finalizes each rank.
pub fn run_at(level: i32, ranks: u32, body: impl Fn(&Mpi, i32) + Send + Sync + 'static) {
    let net = Loopback { options: Options::default(), max_bytes: 64 << 20, eager_max: 128 << 10 };
    run_devices(
        &net,
        ranks,
        |_| {},
        move |dev| {
            let anytime = Arc::new(Anytime::new(Arc::new(Codes::new())));
            let mpi = Mpi::on(dev, level, anytime).expect("init");
            let me = mpi.comm_rank(WORLD).expect("a rank");
            body(&mpi, me);
            mpi.finalize().expect("finalize");
            assert!(mpi.is_finalized());
            let late = mpi.comm_size(WORLD).expect_err("too late");
            assert!(late.text.contains("was finalized"), "{}", late.text);
        },
    );
}

/// Runs a job at the level SERIALIZED.
pub fn run(ranks: u32, body: impl Fn(&Mpi, i32) + Send + Sync + 'static) {
    run_at(THREAD_SERIALIZED, ranks, body);
}

/// The buffer of integers that outlive the operation.
pub fn ints(data: &mut [i32]) -> Buf {
    // SAFETY: tests keep their arrays until the operations on them are over.
    unsafe { Buf::new(data.as_mut_ptr().cast(), data.len() as i64, INT) }
}

/// Sends integers.
pub fn send(mpi: &Mpi, data: &[i32], dest: i32, tag: i32, comm: Comm) -> Result<()> {
    mpi.send(ints(&mut data.to_vec()), dest, tag, comm)
}

/// Receives at most `room` integers: those that have come, and the status.
pub fn recv(mpi: &Mpi, room: usize, source: i32, tag: i32, comm: Comm) -> Result<(Vec<i32>, Status)> {
    let mut data = vec![-1; room];
    let status = mpi.recv(ints(&mut data), source, tag, comm)?;
    data.truncate(status.count_bytes as usize / 4);
    Ok((data, status))
}

/// Waits until all ranks are here, by a ring of messages.
pub fn meet(mpi: &Mpi, comm: Comm) {
    let (me, n) = (mpi.comm_rank(comm).expect("rank"), mpi.comm_size(comm).expect("size"));
    for _ in 0..2 {
        let (mut none, mut room) = ([0; 0], [0; 0]);
        let (next, before) = ((me + 1) % n, (me + n - 1) % n);
        if me == 0 {
            mpi.send(ints(&mut none), next, 32000, comm).expect("send");
            mpi.recv(ints(&mut room), before, 32000, comm).expect("recv");
        } else {
            mpi.recv(ints(&mut room), before, 32000, comm).expect("recv");
            mpi.send(ints(&mut none), next, 32000, comm).expect("send");
        }
    }
}
