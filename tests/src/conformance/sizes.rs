//! Every size around every boundary arrives byte for byte.

use ch3_shim::{Device, DeviceStats};

use super::{NetmodFactory, await_go, check, doing, go, other, pattern, recv, run_job, send};

/// Sizes around the boundaries of all protocols, up to `top`.
fn boundaries(dev: &Device, top: usize) -> Vec<usize> {
    let cfg = dev.config();
    let (stage, eager) = (cfg.tcp.stage, cfg.eager_max);
    let mut sizes = vec![0, 1, 4, 8, 15, 16, 17, 31, 32, 33];
    for edge in [2048, 4096, stage - 32, stage, cfg.tcp.rx_buffer, eager - 32, eager] {
        sizes.extend([edge - 1, edge, edge + 1]);
    }
    sizes.extend([65536 - 33, 65536 + 33]);
    sizes.sort_unstable();
    sizes.retain(|s| *s <= top);
    sizes
}

fn exchange(dev: &mut Device, len: usize, expected: bool) {
    let (peer, world) = (other(dev), dev.world());
    let seed = len as u64;
    doing(format!("{len} bytes, {}", if expected { "expected" } else { "unexpected" }));
    if dev.rank() == 0 {
        if expected {
            await_go(dev, peer);
        }
        send(dev, pattern(seed, len), peer, 1);
        await_go(dev, peer);
    } else {
        let done = if expected {
            let req = dev.irecv(vec![0xAA; len + 8], peer, 1, world).expect("irecv");
            go(dev, peer);
            dev.wait(req).expect("receive")
        } else {
            let seen = dev.probe(peer, 1, world).expect("probe");
            assert_eq!(seen.len, len);
            let req = dev.irecv(vec![0xAA; len + 8], peer, 1, world).expect("irecv");
            dev.wait(req).expect("receive")
        };
        assert_eq!((done.status.source, done.status.tag, done.status.len), (peer, 1, len));
        check(seed, &done.buffer[..len]);
        assert_eq!(done.buffer[len..], [0xAA; 8], "bytes behind a message of {len} bytes");
        go(dev, peer);
    }
}

/// Receives that are posted when the message comes. Large messages move in the mode that is
/// demanded.
pub fn expected(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    let stats = run_job(f, 2, move |dev| {
        for len in boundaries(dev, top) {
            exchange(dev, len, true);
        }
        dev.stats()
    });
    if let Some(mode) = f.large_mode() {
        moved_in(mode, &stats);
    }
}

/// Checks by what means the large messages of rank 0 to rank 1 have moved.
fn moved_in(mode: &str, stats: &[DeviceStats]) {
    let one_sided: Vec<bool> = stats.iter().map(|s| s.one_sided > 0).collect();
    // The sender puts, and the receiver gets.
    assert_eq!(one_sided, [mode == "put", mode == "get"], "{mode}: {stats:?}");
    let through_rings = stats.iter().any(|s| s.through_rings > 0);
    assert_eq!(through_rings, mode == "coop", "{mode}: {stats:?}");
}

/// Messages that come before their receive.
pub fn unexpected(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        for len in boundaries(dev, top) {
            exchange_unexpected(dev, len);
        }
    });
}

/// A rendezvous cannot be waited for before its receive is there, so the sender does not.
fn exchange_unexpected(dev: &mut Device, len: usize) {
    let (peer, world) = (other(dev), dev.world());
    if dev.rank() == 0 && len > dev.config().eager_max {
        let req = dev.isend(pattern(len as u64, len), peer, 1, world).expect("isend");
        dev.wait(req).expect("send");
        await_go(dev, peer);
    } else {
        exchange(dev, len, false);
    }
}

/// All sizes one after the other, with no pause between them.
pub fn back_to_back(f: &dyn NetmodFactory) {
    let top = f.capabilities().max_bytes;
    run_job(f, 2, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        let sizes = boundaries(dev, top);
        let order: Vec<usize> = (0..sizes.len()).map(|i| sizes[i * 17 % sizes.len()]).collect();
        let mut reqs = Vec::new();
        for len in &order {
            reqs.push(if dev.rank() == 0 {
                dev.isend(pattern(*len as u64, *len), peer, 9, world).expect("isend")
            } else {
                dev.irecv(vec![0; *len], peer, 9, world).expect("irecv")
            });
        }
        let done = dev.wait_all(reqs).expect("messages");
        if dev.rank() == 1 {
            for (len, d) in order.iter().zip(done) {
                assert_eq!(d.status.len, *len);
                check(*len as u64, &d.buffer);
            }
        }
    });
}

fn large(f: &dyn NetmodFactory, len: usize) {
    let len = len.min(f.capabilities().max_bytes);
    run_job(f, 2, move |dev| {
        for round in 0..2 {
            let peer = other(dev);
            doing(format!("{len} bytes, round {round}"));
            if dev.rank() == round {
                send(dev, pattern(3, len), peer, 1);
            } else {
                let got = recv(dev, len, peer, 1);
                assert_eq!(got.status.len, len);
                check(3, &got.buffer);
            }
        }
    });
}

/// 1 MiB each way.
pub fn one_mib(f: &dyn NetmodFactory) {
    large(f, 1 << 20);
}

/// 16 MiB each way.
pub fn sixteen_mib(f: &dyn NetmodFactory) {
    large(f, 16 << 20);
}

/// 64 MiB each way.
pub fn sixty_four_mib(f: &dyn NetmodFactory) {
    large(f, 64 << 20);
}
