//! Resources of devices and memory that a job needs, by its size. Compares three transports: RC
//! with a receive queue per queue pair, RC with a shared receive queue (the default), and XRC.
//!
//! All numbers are for one port, and computed by pure functions from the constants that ports use.
//! Tests compare them with simulated devices.

use std::collections::BTreeSet;

use crate::config::VerbsConfig;
use hca::{DeviceAttr, Mtu};

use crate::port::datagrams::{DEPTH as DATAGRAMS, bytes as datagram_bytes};
use crate::port::send_qp::SHARED_DEPTH;
use crate::sizes::{DEPTH, INLINE, TX_BUFFERS, UNDER_WAY};

/// Bytes of a send queue entry with a scatter-gather element or inline data. Devices use blocks of
/// 64 bytes (mlx5: 16 for control, 4 in front of inline data).
const SEND_ENTRY: u64 = (16 + 4 + INLINE as u64).next_multiple_of(64);
/// Bytes of a receive queue entry, and of an entry of a shared receive queue, which is a list
/// (mlx5: 16 per element and per link).
const RECEIVE_ENTRY: u64 = 16;
const SHARED_ENTRY: u64 = 32;
/// Bytes of a completion queue entry (mlx5, mlx4).
const COMPLETION_ENTRY: u64 = 64;

/// Type of connection between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A queue pair per peer, each with receives for a whole window.
    Rc,
    /// A queue pair per peer, and one shared receive queue.
    RcSrq,
    /// A sending queue pair per remote node, and receiving ones shared by the processes of a node.
    Xrc,
}

impl Transport {
    /// All transports, the most expensive first.
    pub const ALL: [Transport; 3] = [Transport::Rc, Transport::RcSrq, Transport::Xrc];

    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Rc => "RC",
            Transport::RcSrq => "RC + SRQ",
            Transport::Xrc => "XRC",
        }
    }
}

/// A job with the same number of ranks on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Number of nodes.
    pub nodes: u32,
    /// Ranks per node.
    pub per_node: u32,
    /// True if ranks of the same node also talk by verbs instead of shared memory.
    pub near: bool,
}

impl Job {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.per_node)
    }

    /// Returns the number of peers that a process reaches by verbs.
    pub fn peers(&self) -> u64 {
        let own = if self.near { 1 } else { self.per_node };
        self.ranks().saturating_sub(own.into())
    }

    /// Returns the number of nodes that have such peers.
    fn peer_nodes(&self) -> u64 {
        let own = !self.near || self.per_node == 1;
        u64::from(self.nodes) - u64::from(own)
    }

    /// Returns the number of processes that reach a node by verbs.
    fn senders(&self) -> u64 {
        let own = if self.near && self.per_node > 1 { 0 } else { self.per_node };
        self.ranks().saturating_sub(own.into())
    }
}

/// Queue pairs of connections. Each process has one more, for datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePairs {
    /// Queue pairs that a process sends through; except with XRC, it also receives through them.
    pub own: u64,
    /// Queue pairs that only receive, shared by all processes of the node.
    pub of_node: u64,
}

impl QueuePairs {
    /// Returns the queue pairs per process, including its share of the node's, rounded up.
    pub fn per_process(&self, per_node: u32) -> u64 {
        self.own + self.of_node.div_ceil(u64::from(per_node).max(1))
    }

    /// Returns the queue pairs of a node.
    pub fn per_node(&self, per_node: u32) -> u64 {
        self.own * u64::from(per_node) + self.of_node
    }

    /// Returns the maximum per process if each talks to `peers` others in both directions, wherever
    /// they are; to all if there are fewer.
    pub fn most(transport: Transport, job: Job, peers: u64) -> QueuePairs {
        let peers = peers.min(job.peers());
        match transport {
            Transport::Rc | Transport::RcSrq => QueuePairs { own: peers, of_node: 0 },
            Transport::Xrc => QueuePairs {
                own: peers.min(job.peer_nodes()),
                of_node: job.senders().min(peers * u64::from(job.per_node)),
            },
        }
    }

    /// Returns the queue pairs of a rank if exactly these ranks talk to each other. Ranks are
    /// numbered node by node.
    pub fn counted(transport: Transport, job: Job, talks: &[(u32, u32)], rank: u32) -> QueuePairs {
        let node = |rank: u32| rank / job.per_node.max(1);
        let both = talks.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
        let both = both.filter(|(a, b)| a != b && (job.near || node(*a) != node(*b)));
        let own = both.clone().filter(|(from, _)| *from == rank).map(|(_, to)| to);
        match transport {
            Transport::Rc | Transport::RcSrq => {
                QueuePairs { own: own.collect::<BTreeSet<u32>>().len() as u64, of_node: 0 }
            }
            Transport::Xrc => {
                let to_node = both.filter(|(_, to)| node(*to) == node(rank)).map(|(from, _)| from);
                QueuePairs {
                    own: own.map(node).collect::<BTreeSet<u32>>().len() as u64,
                    of_node: to_node.collect::<BTreeSet<u32>>().len() as u64,
                }
            }
        }
    }
}

/// Configured sizes and limits of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Maximum frame length in bytes.
    pub frame: usize,
    /// Window of a peer in bytes.
    pub window: usize,
    /// Total length of receive buffers in bytes.
    pub rx_memory: usize,
    /// Maximum length of a datagram: the port's MTU.
    pub mtu: Mtu,
    /// Maximum number of receives of a shared receive queue.
    pub max_srq_wr: u32,
    /// Maximum number of entries of a completion queue.
    pub max_cqe: u32,
}

impl Sizes {
    /// Returns the sizes for a port of a device.
    pub fn new(cfg: &VerbsConfig, device: &DeviceAttr, mtu: Mtu) -> Sizes {
        let DeviceAttr { max_srq_wr, max_cqe, .. } = *device;
        Sizes { frame: cfg.frame, window: cfg.window, rx_memory: cfg.rx_memory, mtu, max_srq_wr, max_cqe }
    }

    /// Returns the sizes for a device without limits and with the largest MTU.
    pub fn of_config(cfg: &VerbsConfig) -> Sizes {
        let VerbsConfig { frame, window, rx_memory, .. } = *cfg;
        Sizes { frame, window, rx_memory, mtu: Mtu::B4096, max_srq_wr: u32::MAX, max_cqe: u32::MAX }
    }
}

/// Returns the number of receive buffers of a port: as many as fit into the memory and the device's
/// limit, but at least two.
pub(crate) fn receive_buffers(rx_memory: usize, frame: usize, max_srq_wr: u32) -> usize {
    (rx_memory / frame.max(1)).clamp(2, max_srq_wr.max(2) as usize)
}

/// Returns the number of receive buffers of reliable connections beside this many of XRC. They are
/// made for the first such connection; few processes are without XRC.
pub(crate) fn receives_beside(receives: usize) -> usize {
    (receives / 4).max(2)
}

/// Returns the maximum number of simultaneous completions of receives and datagrams.
pub(crate) fn fixed_completions(receives: u32) -> u32 {
    receives.saturating_add(2 * DATAGRAMS)
}

/// Returns the capacity of a port's completion queue, enough for everything posted.
pub(crate) fn completions(receives: u32, max_cqe: u32) -> u32 {
    fixed_completions(receives).saturating_add(UNDER_WAY).min(max_cqe)
}

/// Resources of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Queue pairs of connections.
    pub qps: QueuePairs,
    /// Entries of the completion queue.
    pub cq_entries: u64,
    /// Number of receive buffers.
    pub receives: u64,
    /// Total length of the receive buffers in bytes.
    pub receive_bytes: u64,
    /// Total length of the buffers for outgoing frames in bytes.
    pub bounce_bytes: u64,
    /// Total length of the buffers for handshakes in bytes.
    pub datagram_bytes: u64,
    /// Approximate size of the queues in bytes, with mlx5's sizes. This is device memory, or host
    /// memory that the device reads.
    pub queue_bytes: u64,
}

impl Resources {
    /// Returns the resources of a process with these queue pairs.
    pub fn of(transport: Transport, qps: QueuePairs, sizes: &Sizes) -> Resources {
        let frame = sizes.frame as u64;
        let shared = receive_buffers(sizes.rx_memory, sizes.frame, sizes.max_srq_wr) as u32;
        let receives = match transport {
            Transport::Rc => qps.own * (sizes.window as u64).div_ceil(frame.max(1)),
            Transport::RcSrq | Transport::Xrc => shared.into(),
        };
        let cq_entries = match transport {
            Transport::Rc => receives + u64::from(completions(0, u32::MAX)),
            Transport::RcSrq => completions(shared, sizes.max_cqe).into(),
            Transport::Xrc => {
                completions(shared + receives_beside(shared as usize) as u32, sizes.max_cqe).into()
            }
        };
        let receive_entry = if transport == Transport::Rc { RECEIVE_ENTRY } else { SHARED_ENTRY };
        // Queue pairs that only receive have neither queue.
        let depth = if transport == Transport::Xrc { SHARED_DEPTH } else { DEPTH };
        let sends = qps.own * u64::from(depth) + u64::from(DATAGRAMS);
        let receive_entries = receives * receive_entry + u64::from(DATAGRAMS) * RECEIVE_ENTRY;
        Resources {
            qps,
            cq_entries,
            receives,
            receive_bytes: receives * frame,
            bounce_bytes: TX_BUFFERS as u64 * frame,
            datagram_bytes: datagram_bytes(sizes.mtu) as u64,
            queue_bytes: sends * SEND_ENTRY + receive_entries + cq_entries * COMPLETION_ENTRY,
        }
    }

    /// Returns the total length of registered buffers in bytes.
    pub fn registered_bytes(&self) -> u64 {
        self.receive_bytes + self.bounce_bytes + self.datagram_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Job = Job { nodes: 1000, per_node: 64, near: false };

    fn most(transport: Transport, job: Job) -> u64 {
        QueuePairs::most(transport, job, u64::MAX).per_process(job.per_node)
    }

    #[test]
    fn at_a_thousand_nodes_xrc_takes_a_thirty_second() {
        assert_eq!(most(Transport::Rc, FAR), 63_936);
        assert_eq!(most(Transport::RcSrq, FAR), 63_936);
        assert_eq!(most(Transport::Xrc, FAR), 1998);
        assert_eq!(63_936 / 1998, 32);
        assert_eq!(QueuePairs::most(Transport::Xrc, FAR, u64::MAX).per_node(64), 999 * 64 + 63_936);
    }

    /// The formula gives the counted result if all processes talk to each other.
    #[test]
    fn the_formula_counts() {
        for (nodes, per_node) in [(1, 1), (1, 4), (2, 1), (2, 2), (3, 1), (3, 2), (4, 4), (5, 3)] {
            for near in [false, true] {
                let job = Job { nodes, per_node, near };
                let ranks = nodes * per_node;
                let all: Vec<(u32, u32)> = (0..ranks).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
                for transport in Transport::ALL {
                    for rank in 0..ranks {
                        let counted = QueuePairs::counted(transport, job, &all, rank);
                        assert_eq!(
                            counted,
                            QueuePairs::most(transport, job, u64::MAX),
                            "{transport:?} {job:?}"
                        );
                    }
                }
            }
        }
    }

    /// For any set of peers, the number of queue pairs is at most the stated maximum, which can be
    /// reached.
    #[test]
    fn few_peers_take_no_more_than_is_said() {
        let job = Job { nodes: 6, per_node: 3, near: false };
        let most = |transport, peers| QueuePairs::most(transport, job, peers);
        // Each talks to the same position of the next nodes: all peers are on different nodes, and
        // none share.
        for next in 1..3 {
            let talks: Vec<(u32, u32)> =
                (0..18).flat_map(|r| (1..=next).map(move |n| (r, (r + 3 * n) % 18))).collect();
            for transport in Transport::ALL {
                let counted = QueuePairs::counted(transport, job, &talks, 4);
                assert_eq!(counted, most(transport, 2 * u64::from(next)), "{transport:?} {next}");
            }
        }
        // All ranks of two nodes talk to each other: they share.
        let talks: Vec<(u32, u32)> = (0..3).flat_map(|a| (3..6).map(move |b| (a, b))).collect();
        assert_eq!(QueuePairs::counted(Transport::Xrc, job, &talks, 0), QueuePairs { own: 1, of_node: 3 });
        assert_eq!(most(Transport::Xrc, 3), QueuePairs { own: 3, of_node: 9 });
        assert_eq!(QueuePairs::counted(Transport::RcSrq, job, &talks, 0).own, 3);
        assert_eq!(QueuePairs::counted(Transport::RcSrq, job, &talks, 17).own, 0);
    }

    #[test]
    fn only_queue_pairs_make_rc_with_a_shared_queue_grow() {
        let sizes = Sizes::of_config(&VerbsConfig::default());
        let of = |transport, ranks| {
            let job = Job { nodes: ranks, per_node: 1, near: false };
            Resources::of(transport, QueuePairs::most(transport, job, u64::MAX), &sizes)
        };
        let (few, many) = (of(Transport::RcSrq, 2), of(Transport::RcSrq, 100_000));
        assert_eq!((few.receives, few.registered_bytes()), (many.receives, many.registered_bytes()));
        assert_eq!((few.receives, few.cq_entries), (512, 512 + 2 * 64 + 4096));
        assert!(few.queue_bytes < many.queue_bytes);
        // 256 KiB per peer.
        let rc = of(Transport::Rc, 100_000);
        assert_eq!((rc.receives, rc.receive_bytes), (99_999 * 32, 99_999 * (256 << 10)));
    }

    #[test]
    fn devices_set_limits() {
        assert_eq!(receive_buffers(4 << 20, 8 << 10, 100), 100);
        assert_eq!(receive_buffers(64 << 10, 1 << 20, 100), 2);
        assert_eq!(receive_buffers(64 << 10, 1 << 20, 0), 2);
        assert_eq!(completions(512, 1000), 1000);
    }
}
