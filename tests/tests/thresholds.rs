//! The threshold between eager and rendezvous is each VC's own.

use ch3_shim::Mode;
use netmod_tests::board::run_job;
use netmod_tests::factory::Tcp;

/// What a header costs.
const HDR: u64 = 32;

#[test]
fn one_peer_gets_rendezvous_and_the_other_eager() {
    run_job(&Tcp, 3, |dev| {
        let world = dev.world();
        if dev.rank() > 0 {
            let mut buf = [0; 1000];
            assert_eq!(dev.recv(&mut buf, 0, 1, world).expect("recv").len, 1000);
            assert_eq!(buf, [7; 1000]);
            return;
        }
        dev.set_eager_max(1, 100).expect("rank 1 exists");
        assert!(dev.set_eager_max(3, 100).is_err());
        let sends: Vec<_> = [1, 2]
            .map(|to| dev.isend_mode(vec![7; 1000].into(), to, 1, world, Mode::Standard).expect("isend"))
            .into();
        dev.wait_all(sends).expect("sends");
        let sent: Vec<_> =
            dev.report().iter().map(|r| (r.rank, r.eager_max, r.stats.tx_msgs, r.stats.tx_bytes)).collect();
        // RTS and data on the one way, a single message on the other.
        assert_eq!(sent, [(1, 100, 2, 2 * HDR + 1000), (2, 128 << 10, 1, HDR + 1000)]);
    });
}
