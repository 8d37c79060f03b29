//! Small messages over libfabric: of a burst the first one leaves at once, the others go together.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::{Builder, Device, Mode, RawReq};
use netmod_fake_fabric::{Control, Settings, World, library_path};
use netmod_tests::board::Board;
use netmod_tests::sys::Area;
use netmod_tests::watchdog::Watchdog;

/// Messages of a burst: with their headers they have room in one frame.
const MANY: u8 = 100;

/// Two processes over the fake provider, each of which does its part, with no helper that sends
/// what is staged.
fn two(part: impl Fn(&mut Device, &World) + Sync) {
    two_with("off", part);
}

fn two_with(progress: &str, part: impl Fn(&mut Device, &World) + Sync) {
    let _watchdog = Watchdog::new();
    let fabric = World::new(&Control::load(&library_path()).1, Settings::default());
    let mut board = Board::new(2);
    std::thread::scope(|s| {
        for rank in 0..2 {
            let mut cfg = Config::default();
            cfg.netmods = vec!["ofi".into()];
            cfg.set("NETMOD_PROGRESS", progress).expect("a setting");
            cfg.ofi.library = library_path().display().to_string();
            (cfg.ofi.provider, cfg.ofi.domain) = ("fake".into(), fabric.name().to_owned());
            let builder = Builder::new(cfg, Box::new(board.place(rank)));
            let (fabric, part) = (&fabric, &part);
            s.spawn(move || {
                let mut dev = builder.build().expect("a device");
                let world = dev.world();
                dev.barrier(world).expect("barrier");
                while dev.progress().expect("progress") {}
                part(&mut dev, fabric);
                dev.finalize().expect("finalize");
            });
        }
    });
    assert_eq!(fabric.violations(), [""; 0]);
}

/// A single send leaves before its sender computes. The others of many leave in one frame, at the
/// end of the call that waits for them. After a poll the next one leaves at once again.
#[test]
fn of_a_burst_the_first_message_leaves_at_once_and_the_others_together() {
    let (quiet, sent) = (&Barrier::new(2), &Barrier::new(2));
    two(|dev, fabric| {
        let world = dev.world();
        quiet.wait();
        if dev.rank() == 1 {
            // While this process does not call its device, all that leaves is the other one's.
            sent.wait();
            for n in 0..MANY {
                let mut data = [0; 8];
                dev.recv(&mut data, 0, 1, world).expect("recv");
                assert_eq!(data, [n; 8]);
            }
            return;
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
        assert_eq!((frames, waited, alone), (vec![1; others.len()], 2, polled + 1));
    });
}

/// The rest of a burst that nobody waits for leaves, too, in one frame of the helper's.
#[test]
fn of_a_burst_without_a_further_call_the_others_leave_as_well() {
    let (quiet, sent) = (&Barrier::new(2), &Barrier::new(2));
    two_with("auto", |dev, fabric| {
        let world = dev.world();
        quiet.wait();
        if dev.rank() == 1 {
            sent.wait();
            for n in 0..3 {
                let mut data = [0; 8];
                dev.recv(&mut data, 0, 1, world).expect("recv");
                assert_eq!(data, [n; 8]);
            }
            return;
        }
        let before = fabric.stats().sends;
        let areas: Vec<Area> = (0..3).map(|n| Area::new(vec![n; 8])).collect();
        let mut reqs: Vec<RawReq> = areas
            .iter()
            .map(|area| dev.isend_raw(area.contig(), 1, 1, world, Mode::Standard).expect("isend"))
            .collect();
        let limit = Instant::now() + Duration::from_secs(30);
        while fabric.stats().sends < before + 2 {
            assert!(Instant::now() < limit, "what is staged does not leave");
            std::thread::sleep(Duration::from_millis(1));
        }
        sent.wait();
        dev.wait_all_raw(&mut reqs, None).expect("wait");
    });
}

/// A message of up to 16 bytes of payload takes 48 bytes of the device, headers included, whatever
/// the last one was.
#[test]
fn a_message_takes_a_frame_of_its_header_and_of_what_does_not_fit_in_it() {
    let (quiet, sent) = (&Barrier::new(2), &Barrier::new(2));
    // Tag, bytes, and the length of the frame.
    let messages = [(1, 8, 48), (1, 8, 48), (2, 8, 48), (2, 0, 48), (2, 16, 48), (2, 17, 65), (2, 16, 48)];
    two(|dev, fabric| {
        let world = dev.world();
        quiet.wait();
        if dev.rank() == 1 {
            sent.wait();
            for (n, (tag, bytes, _)) in messages.into_iter().enumerate() {
                let mut data = vec![0; bytes];
                dev.recv(&mut data, 0, tag, world).expect("recv");
                assert_eq!(data, vec![n as u8 + 1; bytes]);
            }
            return;
        }
        for (n, (tag, bytes, frame)) in messages.into_iter().enumerate() {
            while dev.progress().expect("progress") {}
            let before = fabric.stats();
            dev.send(&vec![n as u8 + 1; bytes], 1, tag, world).expect("send");
            let after = fabric.stats();
            assert_eq!((after.sends, after.bytes), (before.sends + 1, before.bytes + frame), "message {n}");
        }
        sent.wait();
    });
}
