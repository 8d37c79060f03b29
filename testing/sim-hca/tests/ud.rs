//! Tests of datagrams.

mod common;

use common::*;
use hca::{
    AhAttr, Completion, GidKind, GlobalRoute, Hca, LinkLayer, ModifyQp, PostError, Qp, QpInit, QpKind, QpNum,
    QpState, SendOp, SendWr, Status, To, errno,
};
use netmod_sim_hca::{DeviceSettings, Fabric, Faults, Settings, SimAh, SimQp};

const QKEY: u32 = 0x1234;

struct Two {
    fabric: Fabric,
    qa: SimQp,
    qb: SimQp,
    a: Node,
    b: Node,
}

fn datagrams(node: &Node) -> SimQp {
    let kind = QpKind::Ud { send_cq: &node.cq, recv_cq: &node.cq, srq: None };
    let qp = node.hca.create_qp(&QpInit { kind, cap: CAP, signal_all: false }).unwrap();
    qp.modify(&ModifyQp::InitUd { port: 1, pkey_index: 0, qkey: QKEY }).unwrap();
    qp.modify(&ModifyQp::RtrUd).unwrap();
    qp.modify(&ModifyQp::RtsUd { sq_psn: 3 }).unwrap();
    qp
}

fn two(link_layer: LinkLayer, seed: u64) -> Two {
    let fabric = Fabric::new(Settings { seed, ..Settings::default() });
    let [a, b] = ["a", "b"].map(|name| {
        let settings = DeviceSettings { link_layer, ..DeviceSettings::new(name) };
        Node::new(&fabric, fabric.device(settings))
    });
    Two { qa: datagrams(&a), qb: datagrams(&b), fabric, a, b }
}

impl Two {
    fn post(&self, ah: &SimAh, qp: QpNum, qkey: u32, len: usize) -> Result<(), PostError> {
        let sges = [self.a.sge(0, len)];
        let to = To::Datagram { ah, qp, qkey };
        self.qa.post_send(&[SendWr { to, ..send(9, SendOp::SendImm(8), &sges) }])
    }

    /// Sends one datagram, checks that it completes, and returns what arrives.
    fn one(&self, ah: &SimAh, qp: QpNum, qkey: u32, len: usize) -> Vec<Completion> {
        self.post(ah, qp, qkey, len).unwrap();
        assert!(settle(&self.fabric));
        assert_eq!(self.a.statuses(), [(9, Status::Success)]);
        self.b.poll()
    }

    fn clean(self) {
        let fabric = self.fabric.clone();
        drop(self);
        assert_eq!(fabric.violations(), Vec::<String>::new());
        assert_eq!(fabric.leaks(), Default::default());
    }
}

#[test]
fn datagrams_come_behind_forty_bytes() {
    let two = two(LinkLayer::InfiniBand, 1);
    two.a.mem.write(0, b"datagram");
    two.b.recv(&two.qb, 1, 0, 100);
    let ah = two.a.hca.create_ah(&route(&two.b.hca)).unwrap();
    let got = two.one(&ah, two.qb.number(), QKEY, 8);
    assert_eq!((got.len(), got[0].wr_id, got[0].byte_len, got[0].imm), (1, 1, 48, Some(8)));
    assert_eq!((got[0].src_qp, got[0].grh), (two.qa.number().0, false));
    assert_eq!(two.b.mem.read(40, 8), b"datagram");
    drop(ah);
    two.clean();
}

#[test]
fn the_global_header_says_who_sent_it() {
    let two = two(LinkLayer::Ethernet, 1);
    let [from, to] = [&two.a, &two.b].map(|node| node.hca.gids(1).unwrap());
    for (sgid, entry) in from.iter().zip(&to) {
        two.b.recv(&two.qb, 1, 0, 100);
        let (dgid, sgid_index) = (entry.gid, sgid.index);
        let grh = GlobalRoute { dgid, sgid_index, hop_limit: 9, traffic_class: 3, flow_label: 5 };
        let ah = two.a.hca.create_ah(&AhAttr { grh: Some(grh), dlid: 0, ..route(&two.b.hca) }).unwrap();
        let got = two.one(&ah, two.qb.number(), QKEY, 8);
        assert!(got.len() == 1 && got[0].grh, "{entry:?}");
        let header = two.b.mem.read(0, 40);
        if entry.gid.0[..10] == [0; 10] {
            // IPv4 header in the last 20 bytes.
            assert_eq!(
                (header[20], &header[32..36], &header[36..]),
                (0x45, &sgid.gid.0[12..], &dgid.0[12..])
            );
        } else {
            assert_eq!((header[7], &header[8..24], &header[24..]), (9, &sgid.gid.0[..], &dgid.0[..]));
        }
    }
    // Each version of RoCE is a separate network.
    let v1 = from.iter().find(|entry| entry.kind == GidKind::RoceV1).unwrap().index;
    let v2 = to.iter().find(|entry| entry.kind == GidKind::RoceV2 && entry.gid.0[0] == 0).unwrap();
    let grh = GlobalRoute { dgid: v2.gid, sgid_index: v1, hop_limit: 1, traffic_class: 0, flow_label: 0 };
    let there = AhAttr { grh: Some(grh), dlid: 0, ..route(&two.b.hca) };
    let ah = two.a.hca.create_ah(&there).unwrap();
    two.b.recv(&two.qb, 2, 0, 100);
    assert_eq!(
        two.one(&ah, two.qb.number(), QKEY, 8).len(),
        1,
        "the peer has the address with both versions"
    );
    // A RoCE route needs the global part, and an existing table entry.
    assert_eq!(two.a.hca.create_ah(&AhAttr { grh: None, ..there }).unwrap_err().errno, errno::EINVAL);
    let wrong = AhAttr { grh: Some(GlobalRoute { sgid_index: 15, ..grh }), ..there };
    assert_eq!(two.a.hca.create_ah(&wrong).unwrap_err().errno, errno::EINVAL);
    drop(ah);
    two.clean();
}

#[test]
fn datagrams_without_a_receive_are_silently_dropped() {
    let two = two(LinkLayer::InfiniBand, 1);
    let ah = two.a.hca.create_ah(&route(&two.b.hca)).unwrap();
    let number = two.qb.number();
    assert_eq!(two.one(&ah, number, QKEY, 8), [], "no receive");
    two.b.recv(&two.qb, 1, 0, 100);
    assert_eq!(two.one(&ah, number, QKEY + 1, 8), [], "another key");
    assert_eq!(two.one(&ah, QpNum(number.0 + 77), QKEY, 8), [], "no queue pair");
    let nowhere = two.a.hca.create_ah(&AhAttr { dlid: 999, ..route(&two.b.hca) }).unwrap();
    assert_eq!(two.one(&nowhere, number, QKEY, 8), [], "no port");
    two.fabric.set_faults(Faults { loss: 1.0, ..Faults::default() });
    assert_eq!(two.one(&ah, number, QKEY, 8), [], "lost");
    two.fabric.set_faults(Faults::default());
    assert_eq!(two.one(&ah, number, 1 << 31, 8).len(), 1, "the sender's own key is the right one");
    drop((ah, nowhere));
    two.clean();
}

#[test]
fn datagrams_overtake_each_other() {
    let overtaken = |seed| {
        let two = two(LinkLayer::InfiniBand, seed);
        let ah = two.a.hca.create_ah(&route(&two.b.hca)).unwrap();
        (0..3).for_each(|i| two.b.recv(&two.qb, i, 0, 100));
        for len in 1..4 {
            two.post(&ah, two.qb.number(), QKEY, len).unwrap();
        }
        assert!(settle(&two.fabric));
        let lens: Vec<_> = two.b.poll().iter().map(|c| c.byte_len).collect();
        assert_eq!(lens.iter().sum::<u32>(), 126);
        lens != [41, 42, 43]
    };
    assert!((0..20).any(overtaken));
}

#[test]
fn a_datagram_fits_in_a_packet_and_in_its_receive() {
    let big = two(LinkLayer::InfiniBand, 1);
    let ah = big.a.hca.create_ah(&route(&big.b.hca)).unwrap();
    big.post(&ah, big.qb.number(), QKEY, 4097).unwrap();
    assert!(big.fabric.violations()[0].contains("4097 bytes"));
    assert!(settle(&big.fabric));
    assert_eq!(big.a.statuses(), [(9, Status::LocLenErr)]);

    let short = two(LinkLayer::InfiniBand, 1);
    let ah = short.a.hca.create_ah(&route(&short.b.hca)).unwrap();
    short.b.recv(&short.qb, 1, 0, 47);
    let got = short.one(&ah, short.qb.number(), QKEY, 8);
    assert_eq!((got[0].status, short.qb.state().unwrap()), (Status::LocLenErr, QpState::Err));
}

#[test]
fn datagrams_are_messages_alone_and_need_an_own_address() {
    let two = two(LinkLayer::InfiniBand, 1);
    let ah = two.b.hca.create_ah(&route(&two.b.hca)).unwrap();
    assert!(two.post(&ah, two.qb.number(), QKEY, 8).is_err(), "an address handle of another process");
    let ah = two.a.hca.create_ah(&route(&two.b.hca)).unwrap();
    let to = To::Datagram { ah: &ah, qp: two.qb.number(), qkey: QKEY };
    let write = SendOp::RdmaWrite { addr: two.b.addr(0), rkey: 0 };
    assert!(two.qa.post_send(&[SendWr { to, ..send(1, write, &[]) }]).is_err());
    assert_eq!(two.fabric.violations().len(), 2);
}
