//! The counts of VCs, summed by netmod.

use netmod_core::{Core, GroupId, PeerName, Vc, VcStats};

/// The bytes of a VC still count for its netmod when the VC is gone.
#[test]
fn the_traffic_of_a_netmod_includes_vcs_that_were_removed() {
    let mut core = Core::new(4);
    let peer = PeerName { group: GroupId::default(), rank: 1 };
    let vcs = [0, 1, 1].map(|netmod| core.add_vc(Vc::new(peer, netmod)));
    for (n, vc) in (1..).zip(vcs) {
        let stats = &mut core.vc_mut(vc).expect("a VC").stats;
        (stats.tx_msgs, stats.rx_bytes) = (n, 100 * n);
    }
    for _ in 0..2 {
        assert_eq!((core.traffic(0).tx_msgs, core.traffic(0).rx_bytes), (1, 100));
        assert_eq!((core.traffic(1).tx_msgs, core.traffic(1).rx_bytes), (5, 500));
        assert_eq!(core.traffic(2), VcStats::default());
        core.remove_vc(vcs[1]);
    }
    assert!(core.remove_vc(vcs[1]).is_none());
}
