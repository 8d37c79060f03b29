//! Bursts of small messages over libfabric: the first one leaves at once, the others go together.

use std::sync::Barrier;

use ch3_shim::{Builder, Mode, RawReq};
use fake_fabric::{Control, Settings, World, library_path};
use netmod_core::Config;
use netmod_tests::board::Board;
use netmod_tests::sys::Area;
use netmod_tests::watchdog::Watchdog;

/// Messages of a burst: with their headers they have room in one frame.
const MANY: u8 = 100;

/// Who computes after one send has sent it; of many the others leave with the end of the call that waits for them, in one frame. After a poll the next one
/// leaves at once again.
#[test]
fn of_a_burst_the_first_message_leaves_at_once_and_the_others_together() {
    let _watchdog = Watchdog::new();
    let fabric = World::new(&Control::load(&library_path()).1, Settings::default());
    let mut board = Board::new(2);
    let (quiet, sent) = (&Barrier::new(2), &Barrier::new(2));
    std::thread::scope(|s| {
        for rank in 0..2 {
            let mut cfg = Config::default();
            cfg.netmods = vec!["ofi".into()];
            cfg.ofi.library = library_path().display().to_string();
            (cfg.ofi.provider, cfg.ofi.domain) = ("fake".into(), fabric.name().to_owned());
            let builder = Builder::new(cfg, Box::new(board.place(rank)));
            let fabric = &fabric;
            s.spawn(move || {
                let mut dev = builder.build().expect("a device");
                let world = dev.world();
                dev.barrier(world).expect("barrier");
                while dev.progress().expect("progress") {}
                quiet.wait();
                if rank == 1 {
                    // While this process does not call its device, all that leaves is the other one's.
                    sent.wait();
                    for n in 0..MANY {
                        let mut data = [0; 8];
                        dev.recv(&mut data, 0, 1, world).expect("recv");
                        assert_eq!(data, [n; 8]);
                    }
                    return dev.finalize().expect("finalize");
                }
                let before = fabric.stats().sends;
                let left = || fabric.stats().sends - before;
                let areas: Vec<Area> = (0..MANY).map(|n| Area::new(vec![n; 8])).collect();
                let mut frames = Vec::new();
                let mut reqs: Vec<RawReq> = Vec::new();
                let (last, others) = areas.split_last().expect("many");
                for area in others {
                    reqs.push(dev.isend_raw(area.contig(), 1, 1, world, Mode::Standard).expect("isend"));
                    frames.push(left());
                }
                dev.wait_all_raw(&mut reqs, None).expect("wait");
                let waited = left();
                dev.progress().expect("progress");
                let polled = left();
                let req = dev.isend_raw(last.contig(), 1, 1, world, Mode::Standard).expect("isend");
                let alone = left();
                dev.wait_raw(req).expect("wait");
                sent.wait();
                dev.finalize().expect("finalize");
                assert_eq!((frames, waited, alone), (vec![1; others.len()], 2, polled + 1));
            });
        }
    });
    assert_eq!(fabric.violations(), [""; 0]);
}
