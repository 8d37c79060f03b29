//! Tests of extended reliable connections: domains shared by processes, and receivers that outlive
//! their makers.

mod common;

use std::fs::File;
use std::os::fd::AsFd;

use common::*;
use hca::{
    AsyncEvent, Completed, Hca, ModifyQp, Mr, Piece, Qp, QpInit, QpKind, QpNum, RecvWr, SendOp, Srq, SrqAttr,
    SrqNum, Status, ToRts, XrcdOpen, errno,
};
use netmod_sim_hca::{DeviceId, DeviceSettings, Fabric, Settings, SimQp, SimSrq, SimXrcd, TgtLife};

/// A process of the receiving node that is a member of the node's domain.
struct Member {
    srq: SimSrq,
    xrcd: SimXrcd,
    node: Node,
}

impl Member {
    fn new(fabric: &Fabric, device: DeviceId, file: &File) -> Member {
        let node = Node::new(fabric, device);
        let xrcd = node.hca.open_xrcd(XrcdOpen::Shared(file.as_fd())).unwrap();
        let attr = SrqAttr { max_wr: 16, max_sge: 1 };
        let srq = node.hca.create_xrc_srq(attr, 3, &xrcd, &node.cq).unwrap();
        Member { srq, xrcd, node }
    }

    fn number(&self) -> SrqNum {
        self.srq.number().unwrap()
    }

    fn fill(&self, n: u64) {
        for wr_id in 0..n {
            let sge = self.node.sge(wr_id as usize * 64, 64);
            self.srq.post_recv(&[RecvWr { wr_id, sges: &[sge] }]).unwrap();
        }
    }

    fn tgt(&self) -> SimQp {
        let kind = QpKind::XrcTgt { xrcd: &self.xrcd };
        self.node.hca.create_qp(&QpInit { kind, cap: Default::default(), signal_all: false }).unwrap()
    }
}

fn ini(node: &Node) -> SimQp {
    let kind = QpKind::XrcIni { send_cq: &node.cq };
    node.hca.create_qp(&QpInit { kind, cap: CAP, signal_all: false }).unwrap()
}

/// A sender on one device, members of a domain on another, and a receiver that the first member has
/// made.
struct Net {
    fabric: Fabric,
    device: DeviceId,
    file: File,
    ini: SimQp,
    sender: Node,
    members: Vec<Member>,
    tgt: Option<SimQp>,
}

fn net_of(members: usize, tgt_life: TgtLife) -> Net {
    let fabric = Fabric::new(Settings { tgt_life, ..Settings::default() });
    let [near, device] = ["near", "far"].map(|name| fabric.device(DeviceSettings::new(name)));
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    let sender = Node::new(&fabric, near);
    let members: Vec<_> = (0..members).map(|_| Member::new(&fabric, device, &file)).collect();
    let (ini, tgt) = (ini(&sender), members[0].tgt());
    let sending = ToRts { timeout: 4, retry_cnt: 3, ..rts(0x00ff_ffff) };
    connect(&ini, &members[0].node.hca, tgt.number(), 0, sending);
    tgt.modify(&init()).unwrap();
    tgt.modify(&ModifyQp::Rtr(rtr(&sender.hca, ini.number(), 0x00ff_ffff))).unwrap();
    Net { fabric, device, file, ini, sender, members, tgt: Some(tgt) }
}

fn net(members: usize) -> Net {
    net_of(members, TgtLife::Domain)
}

impl Net {
    fn tgt(&self) -> QpNum {
        self.tgt.as_ref().unwrap().number()
    }

    /// Sends to a shared receive queue; returns the completions.
    fn send(&self, to: SrqNum, text: &[u8]) -> Vec<(u64, Status)> {
        let pieces = [Piece::new(text)];
        self.ini.post_send(&[to_srq(inline(1, SendOp::Send, &pieces), to)]).unwrap();
        assert!(settle(&self.fabric));
        self.sender.statuses()
    }
}

const SENT: [(u64, Status); 1] = [(1, Status::Success)];

#[test]
fn one_queue_pair_reaches_the_processes_of_a_node() {
    let net = net(3);
    for (i, member) in net.members.iter().enumerate() {
        member.fill(2);
        assert_eq!(net.send(member.number(), &[i as u8; 5]), SENT);
    }
    for (i, member) in net.members.iter().enumerate() {
        let got = member.node.poll();
        assert_eq!((got.len(), got[0].byte_len, got[0].op), (1, 5, Completed::Recv));
        assert_eq!((got[0].qp_num, got[0].wr_id), (net.tgt().0, 0));
        assert_eq!(member.node.mem.read(0, 5), [i as u8; 5]);
    }
    let counts: Vec<_> = net.members.iter().map(|m| net.fabric.counts(m.node.hca.context())).collect();
    assert_eq!(
        counts.iter().map(|c| (c.qps, c.tgt_qps, c.srqs)).collect::<Vec<_>>(),
        [(0, 1, 1), (0, 0, 1), (0, 0, 1)]
    );
    let fabric = net.fabric.clone();
    drop(net);
    assert_eq!((fabric.violations(), fabric.leaks()), (vec![], Default::default()));
}

#[test]
fn reads_and_writes_mean_the_memory_of_the_process_that_the_queue_names() {
    let net = net(2);
    let [first, second] = [&net.members[0], &net.members[1]];
    let op = SendOp::RdmaWrite { addr: second.node.addr(128), rkey: second.node.mr.rkey() };
    let pieces = [Piece::new(b"there")];
    net.ini.post_send(&[to_srq(inline(1, op, &pieces), second.number())]).unwrap();
    assert!(settle(&net.fabric));
    assert_eq!((net.sender.statuses(), second.node.mem.read(128, 5)), (SENT.to_vec(), b"there".to_vec()));
    net.ini.post_send(&[to_srq(inline(2, op, &pieces), first.number())]).unwrap();
    assert!(settle(&net.fabric));
    assert_eq!(net.sender.statuses(), [(2, Status::RemAccessErr)]);
    let events = [AsyncEvent::CommEstablished(net.tgt()), AsyncEvent::QpAccessError(net.tgt())];
    assert_eq!(first.node.events(), events);
}

#[test]
fn a_message_waits_for_receives_of_the_queue_that_it_names() {
    let net = net(2);
    net.members[0].fill(1);
    let to = net.members[1].number();
    net.ini.post_send(&[to_srq(send(1, SendOp::Send, &[]), to)]).unwrap();
    assert!(!net.fabric.settle(netmod_core::Time(1_000_000)));
    net.members[1].fill(1);
    assert!(settle(&net.fabric));
    assert_eq!((net.sender.statuses(), net.members[1].node.poll().len()), (SENT.to_vec(), 1));
    assert_eq!(net.members[0].node.poll().len(), 0);
}

#[test]
fn a_queue_that_is_not_of_the_domain_is_an_error() {
    for case in 0..3 {
        let mut net = net(2);
        let other = Node::new(&net.fabric, net.device);
        let domain = other.hca.open_xrcd(XrcdOpen::Private).unwrap();
        let foreign =
            other.hca.create_xrc_srq(SrqAttr { max_wr: 1, max_sge: 1 }, 0, &domain, &other.cq).unwrap();
        let plain = other.hca.create_srq(SrqAttr { max_wr: 1, max_sge: 1 }, 0).unwrap();
        assert_eq!(plain.number(), None);
        let to = match case {
            0 => SrqNum(0x00ab_cdef),
            1 => foreign.number().unwrap(),
            _ => {
                let gone = net.members.pop().unwrap();
                gone.number()
            }
        };
        assert_eq!(net.send(to, b"x"), [(1, Status::RemInvReqErr)]);
        let events = [AsyncEvent::CommEstablished(net.tgt()), AsyncEvent::QpRequestError(net.tgt())];
        assert_eq!(net.members[0].node.events(), events);
    }
}

#[test]
fn the_receiver_outlives_its_maker() {
    let mut net = net(2);
    let last = net.members.pop().unwrap();
    let maker = net.members.pop().unwrap();
    last.fill(4);
    net.fabric.kill(maker.node.hca.context());
    assert_eq!(net.send(last.number(), b"still"), SENT);
    assert_eq!(last.node.mem.read(0, 5), b"still");
    // Handles of a dead process are useless and harmless.
    assert_eq!(net.tgt.as_ref().unwrap().state().unwrap_err().errno, errno::ENODEV);
    drop((net.tgt.take(), maker));
    assert_eq!(net.send(last.number(), b"again"), SENT);
    // It ends with the domain.
    let to = last.number();
    assert_eq!(net.fabric.leaks().qps, 2);
    drop(last);
    assert_eq!((net.fabric.leaks().qps, net.fabric.leaks().domains), (1, 0));
    assert_eq!(net.send(to, b"nobody"), [(1, Status::RetryExcErr)]);
}

#[test]
fn the_last_that_closes_a_receiver_ends_it() {
    let mut net = net(2);
    let opened = net.members[1].node.hca.open_tgt(&net.members[1].xrcd, net.tgt()).unwrap();
    assert!(is_tgt(&opened) && opened.number() == net.tgt());
    net.members[1].fill(2);
    let to = net.members[1].number();
    drop(net.tgt.take());
    assert_eq!(net.send(to, b"x"), SENT);
    drop(opened);
    assert_eq!(net.send(to, b"x"), [(1, Status::RetryExcErr)]);
}

#[test]
fn where_death_closes_a_receiver_those_who_have_opened_it_keep_it() {
    for open in [false, true] {
        let mut net = net_of(2, TgtLife::Handles);
        let last = net.members.pop().unwrap();
        last.fill(2);
        let opened = open.then(|| last.node.hca.open_tgt(&last.xrcd, net.tgt()).unwrap());
        net.fabric.kill(net.members[0].node.hca.context());
        let expected = if open { Status::Success } else { Status::RetryExcErr };
        assert_eq!(net.send(last.number(), b"x"), [(1, expected)]);
        drop(opened);
    }
}

#[test]
fn events_of_a_receiver_go_to_all_who_have_it() {
    let net = net(3);
    let _opened = net.members[2].node.hca.open_tgt(&net.members[2].xrcd, net.tgt()).unwrap();
    net.members[0].fill(1);
    assert_eq!(net.send(net.members[0].number(), b"x"), SENT);
    let met = vec![AsyncEvent::CommEstablished(net.tgt())];
    let events: Vec<_> = net.members.iter().map(|member| member.node.events()).collect();
    assert_eq!(events, [met.clone(), vec![], met]);
}

#[test]
fn receivers_are_opened_in_their_domain_alone() {
    let net = net(1);
    let other = Node::new(&net.fabric, net.device);
    let foreign = other.hca.open_xrcd(XrcdOpen::Private).unwrap();
    let open = |xrcd: &SimXrcd, number| other.hca.open_tgt(xrcd, number).map(|_| ()).unwrap_err().errno;
    assert_eq!(open(&foreign, net.tgt()), errno::EINVAL);
    let same = other.hca.open_xrcd(XrcdOpen::Existing(net.file.as_fd())).unwrap();
    assert_eq!(open(&same, QpNum(0x7777)), errno::EINVAL);
    assert_eq!(open(&same, other.rc(CAP, None).number()), errno::EINVAL);
    assert!(other.hca.open_tgt(&same, net.tgt()).is_ok());
    // A domain that must exist and does not; and one of the same file on another device.
    let manifest = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let found =
        |hca: &netmod_sim_hca::SimHca, file: &File| hca.open_xrcd(XrcdOpen::Existing(file.as_fd())).is_ok();
    assert!(!found(&other.hca, &manifest) && !found(&net.sender.hca, &net.file));
}

#[test]
fn a_device_without_xrc_refuses_whatever_it_claims() {
    let fabric = Fabric::new(Settings::default());
    let device = fabric.device(DeviceSettings { xrc: false, ..DeviceSettings::new("plain") });
    let node = Node::new(&fabric, device);
    assert!(node.hca.device().xrc_claimed);
    let error = node.hca.open_xrcd(XrcdOpen::Private).unwrap_err();
    assert_eq!(error.errno, errno::EOPNOTSUPP);
    assert!(error.to_string().contains("cannot do this"), "{error}");
    let kind = QpKind::XrcIni { send_cq: &node.cq };
    let ini = node.hca.create_qp(&QpInit { kind, cap: CAP, signal_all: false });
    assert_eq!(ini.map(|_| ()).unwrap_err().errno, errno::EOPNOTSUPP);
}

#[test]
fn the_two_halves_do_only_their_own() {
    let net = net(1);
    assert!(net.tgt.as_ref().unwrap().post_send(&[send(1, SendOp::Send, &[])]).is_err());
    assert!(net.ini.post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).is_err());
    assert!(net.ini.post_send(&[send(1, SendOp::Send, &[])]).is_err(), "no queue was named");
    assert_eq!(net.fabric.violations().len(), 3);
}
