//! Datagrams and their routes.

use hca::{AhAttr, Completed, Completion, Gid, LinkLayer, QpState, SendOp, Status};

use crate::model::cq::Cqe;
use crate::model::device::PortId;
use crate::model::qp::Local;
use crate::model::wire::{Body, Datagram, Packet};
use crate::model::{Id, State};

/// An address handle.
#[derive(Debug)]
pub(crate) struct AddressHandle {
    pub(crate) context: usize,
    pub(crate) attr: AhAttr,
}

/// Length of the global header in front of a datagram's data.
const GLOBAL_HEADER: usize = 40;

impl State {
    /// Sends a datagram. The request completes when it has left; its arrival is not reported.
    pub(crate) fn send_datagram(&mut self, id: Id, index: u64) -> Result<(), Status> {
        if self.rng.chance(self.settings.faults.send) {
            return Err(Status::GeneralErr);
        }
        let Some(qp) = self.qps.get(&id) else { return Ok(()) };
        let (Some(entry), Some(context)) = (qp.sq.get(index), qp.owner()) else { return Ok(()) };
        if entry.len > u64::from(self.devices[qp.device].settings.mtu.bytes()) {
            return Err(Status::LocLenErr);
        }
        let data = match &entry.local {
            Local::Registered(sges) => self.gather(context, sges)?,
            Local::Copied(bytes) => bytes.clone(),
        };
        let imm = match entry.op {
            SendOp::SendImm(imm) => Some(imm),
            _ => None,
        };
        let (from, source, device) = (qp.port_id(), qp.number.0, qp.device);
        if let Some(target) = entry.target {
            // The highest bit selects the sender's own key.
            let qkey = if target.qkey >> 31 != 0 { qp.qkey } else { target.qkey };
            let datagram = Datagram { data, imm, qkey, solicited: entry.solicited, route: target.route };
            if let Some(to) = self.find_port(device, &target.route) {
                let packet = Packet {
                    from,
                    to,
                    source,
                    number: target.number,
                    migrated: true,
                    body: Body::Datagram(datagram),
                };
                self.send(id, false, packet);
            }
        }
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.sq.next = index + 1;
            qp.sq.sent = index + 1;
            if let Some(entry) = qp.sq.get_mut(index) {
                entry.answered = true;
            }
        }
        self.settle(id);
        Ok(())
    }

    /// Handles the arrival of a datagram, which is silently dropped if there is no receive.
    pub(crate) fn datagram(&mut self, id: Id, packet: Packet) {
        let Body::Datagram(datagram) = packet.body else { return };
        let Some(qp) = self.qps.get_mut(&id) else { return };
        let ready = matches!(qp.state, QpState::Rtr | QpState::Rts);
        if !ready || qp.kind != hca::QpKindOf::Ud || qp.qkey != datagram.qkey || qp.port != packet.to.port {
            return;
        }
        let (Some(context), number, srq, cq) = (qp.owner(), qp.number.0, qp.srq, qp.recv_cq) else { return };
        let recv = match srq {
            Some(srq) => self.take_shared(srq),
            None => qp.rq.pop_front(),
        };
        let (Some(recv), Some(cq)) = (recv, cq) else { return };
        let header = self.global_header(&packet.from, &packet.to, &datagram);
        let grh = datagram.route.grh.is_some();
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(&datagram.data);
        if let Err(status) = self.scatter(context, &recv.sges, &bytes) {
            self.complete_recv_error(id, recv, status);
            self.fail_qp(id, None);
            return;
        }
        let what = Completion {
            wr_id: recv.wr_id,
            status: Status::Success,
            op: Completed::Recv,
            grh,
            vendor_err: 0,
            byte_len: bytes.len() as u32,
            imm: datagram.imm,
            qp_num: number,
            src_qp: packet.source,
        };
        self.complete(cq, Cqe { what, qp: id, sent: None, regions: recv.regions }, datagram.solicited);
    }

    /// Makes the global header; without one, its bytes have no meaning.
    fn global_header(&self, from: &PortId, to: &PortId, datagram: &Datagram) -> [u8; GLOBAL_HEADER] {
        let mut header = [0xa5; GLOBAL_HEADER];
        let Some(route) = datagram.route.grh else { return header };
        let gid = |port_id: &PortId, index: u8| {
            let table = self.gids(*port_id).unwrap_or_default();
            table.iter().find(|entry| entry.index == index).map_or(Gid::default(), |entry| entry.gid)
        };
        let word = 6 << 28 | u32::from(route.traffic_class) << 20 | route.flow_label & 0x000f_ffff;
        header[..4].copy_from_slice(&word.to_be_bytes());
        header[4..6].copy_from_slice(&(datagram.data.len() as u16).to_be_bytes());
        header[6] = 0x1b;
        header[7] = route.hop_limit;
        header[8..24].copy_from_slice(&gid(from, route.sgid_index).0);
        header[24..].copy_from_slice(&route.dgid.0);
        if self.devices[to.device].settings.link_layer == LinkLayer::Ethernet
            && route.dgid.0[10..12] == [0xff; 2]
        {
            // An IPv4 header of 20 bytes at the end, with unused bytes in front.
            let source = gid(from, route.sgid_index).0;
            header[..20].fill(0);
            header[20] = 0x45;
            header[21..32].fill(0);
            header[32..36].copy_from_slice(&source[12..]);
            header[36..].copy_from_slice(&route.dgid.0[12..]);
        }
        header
    }
}
