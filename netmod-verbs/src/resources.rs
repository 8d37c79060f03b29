//! What a job takes of devices and memory, by its size: with a queue pair for each two processes that has receives of its own (RC), with one
//! that shares them (RC and a shared receive queue, what the netmod does by default), and with XRC.
//!
//! Everything is of one port, and pure: numbers that the ports themselves go by, and arithmetic. Tests count the same on simulated devices.

use std::collections::BTreeSet;

use hca::{DeviceAttr, Mtu};
use netmod_core::config::VerbsConfig;

use crate::port::{DATAGRAMS, DEPTH, INLINE, SHARED_DEPTH, TX_BUFFERS, UNDER_WAY, datagram_bytes};

/// Bytes of a place in a send queue, with a piece of memory or inline data: devices have blocks of 64 (mlx5: 16 of control, 4 in front of inline
/// data).
const SEND_ENTRY: u64 = (16 + 4 + INLINE as u64).next_multiple_of(64);
/// Bytes of a place in a receive queue of a queue pair's own, and in a shared one, which is a list (mlx5: 16 for each piece and for the link).
const RECEIVE_ENTRY: u64 = 16;
const SHARED_ENTRY: u64 = 32;
/// Bytes of a place in a completion queue (mlx5, mlx4).
const COMPLETION_ENTRY: u64 = 64;

/// How processes are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// A queue pair for each peer, each with receives for a whole window.
    Rc,
    /// A queue pair for each peer, and one receive queue.
    RcSrq,
    /// A sending queue pair for each other node, and receiving ones that the processes of a node share.
    Xrc,
}

impl Transport {
    /// All, the most expensive first.
    pub const ALL: [Transport; 3] = [Transport::Rc, Transport::RcSrq, Transport::Xrc];

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Rc => "RC",
            Transport::RcSrq => "RC + SRQ",
            Transport::Xrc => "XRC",
        }
    }
}

/// A job, all of whose nodes have as many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Nodes.
    pub nodes: u32,
    /// Ranks of each.
    pub per_node: u32,
    /// Whether ranks of the same node are reached by verbs, too. If not, by shared memory.
    pub near: bool,
}

impl Job {
    /// Ranks in all.
    pub fn ranks(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.per_node)
    }

    /// Other processes that a process reaches by verbs.
    pub fn peers(&self) -> u64 {
        let own = if self.near { 1 } else { self.per_node };
        self.ranks().saturating_sub(own.into())
    }

    /// Nodes that have such processes.
    fn peer_nodes(&self) -> u64 {
        let own = !self.near || self.per_node == 1;
        u64::from(self.nodes) - u64::from(own)
    }

    /// Processes that reach a node by verbs.
    fn senders(&self) -> u64 {
        let own = if self.near && self.per_node > 1 { 0 } else { self.per_node };
        self.ranks().saturating_sub(own.into())
    }
}

/// Queue pairs of connections. Each process has one more, of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePairs {
    /// That a process sends through; but for XRC it receives through them, too.
    pub own: u64,
    /// That only receive, and belong to all processes of the node.
    pub of_node: u64,
}

impl QueuePairs {
    /// For each process of a node, with its share of the node's, rounded up.
    pub fn per_process(&self, per_node: u32) -> u64 {
        self.own + self.of_node.div_ceil(u64::from(per_node).max(1))
    }

    /// Of a node.
    pub fn per_node(&self, per_node: u32) -> u64 {
        self.own * u64::from(per_node) + self.of_node
    }

    /// The most that a process has if each talks to so many others, both ways, wherever they are; to all if there are not so many.
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

    /// Those of a rank if exactly these talk to each other; ranks are numbered node by node.
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

/// What sizes are set, and what a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Longest frame in bytes.
    pub frame: usize,
    /// Bytes that a peer may have under way.
    pub window: usize,
    /// Bytes of receive buffers.
    pub rx_memory: usize,
    /// Bytes of the longest datagram: of the port's packets.
    pub mtu: Mtu,
    /// Receives of a shared receive queue at most.
    pub max_srq_wr: u32,
    /// Entries of a completion queue at most.
    pub max_cqe: u32,
}

impl Sizes {
    /// On a port of a device.
    pub fn new(cfg: &VerbsConfig, device: &DeviceAttr, mtu: Mtu) -> Sizes {
        let DeviceAttr { max_srq_wr, max_cqe, .. } = *device;
        Sizes { frame: cfg.frame, window: cfg.window, rx_memory: cfg.rx_memory, mtu, max_srq_wr, max_cqe }
    }

    /// On a device that sets no limits, with the longest packets.
    pub fn of_config(cfg: &VerbsConfig) -> Sizes {
        let VerbsConfig { frame, window, rx_memory, .. } = *cfg;
        Sizes { frame, window, rx_memory, mtu: Mtu::B4096, max_srq_wr: u32::MAX, max_cqe: u32::MAX }
    }
}

/// Receive buffers of a port: as many as fit into its memory, and the device takes, but no fewer than two.
pub(crate) fn receive_buffers(rx_memory: usize, frame: usize, max_srq_wr: u32) -> usize {
    (rx_memory / frame.max(1)).clamp(2, max_srq_wr.max(2) as usize)
}

/// Receive buffers of reliable connections beside so many of XRC, made when there is such a connection: few processes are without XRC.
pub(crate) fn receives_beside(receives: usize) -> usize {
    (receives / 4).max(2)
}

/// Completions of receives and datagrams that there may be at once.
pub(crate) fn fixed_completions(receives: u32) -> u32 {
    receives.saturating_add(2 * DATAGRAMS)
}

/// Places of a port's completion queue, so that none is missing for what is posted.
pub(crate) fn completions(receives: u32, max_cqe: u32) -> u32 {
    fixed_completions(receives).saturating_add(UNDER_WAY).min(max_cqe)
}

/// What a process takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Queue pairs of connections.
    pub qps: QueuePairs,
    /// Entries of its completion queue.
    pub cq_entries: u64,
    /// Receive buffers in all.
    pub receives: u64,
    /// Bytes of these.
    pub receive_bytes: u64,
    /// Bytes of buffers for frames that go out.
    pub bounce_bytes: u64,
    /// Bytes of buffers for handshakes.
    pub datagram_bytes: u64,
    /// Bytes of the queues themselves, about: as large as with mlx5. Device memory, or the host's, which the device reads.
    pub queue_bytes: u64,
}

impl Resources {
    /// Of a process that has these queue pairs.
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

    /// Bytes of buffers, which are registered.
    pub fn registered_bytes(&self) -> u64 {
        self.receive_bytes + self.bounce_bytes + self.datagram_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmod_core::Config;

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

    /// The closed form is what counting gives if everybody talks to everybody.
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

    /// Whoever the peers are, there are no more queue pairs than is said, and there may be as many.
    #[test]
    fn few_peers_take_no_more_than_is_said() {
        let job = Job { nodes: 6, per_node: 3, near: false };
        let most = |transport, peers| QueuePairs::most(transport, job, peers);
        // To the same place of the next nodes: all peers are on different nodes, and nobody shares one.
        for next in 1..3 {
            let talks: Vec<(u32, u32)> =
                (0..18).flat_map(|r| (1..=next).map(move |n| (r, (r + 3 * n) % 18))).collect();
            for transport in Transport::ALL {
                let counted = QueuePairs::counted(transport, job, &talks, 4);
                assert_eq!(counted, most(transport, 2 * u64::from(next)), "{transport:?} {next}");
            }
        }
        // All ranks of two nodes: they share.
        let talks: Vec<(u32, u32)> = (0..3).flat_map(|a| (3..6).map(move |b| (a, b))).collect();
        assert_eq!(QueuePairs::counted(Transport::Xrc, job, &talks, 0), QueuePairs { own: 1, of_node: 3 });
        assert_eq!(most(Transport::Xrc, 3), QueuePairs { own: 3, of_node: 9 });
        assert_eq!(QueuePairs::counted(Transport::RcSrq, job, &talks, 0).own, 3);
        assert_eq!(QueuePairs::counted(Transport::RcSrq, job, &talks, 17).own, 0);
    }

    #[test]
    fn only_queue_pairs_make_rc_with_a_shared_queue_grow() {
        let sizes = Sizes::of_config(&Config::default().verbs);
        let of = |transport, ranks| {
            let job = Job { nodes: ranks, per_node: 1, near: false };
            Resources::of(transport, QueuePairs::most(transport, job, u64::MAX), &sizes)
        };
        let (few, many) = (of(Transport::RcSrq, 2), of(Transport::RcSrq, 100_000));
        assert_eq!((few.receives, few.registered_bytes()), (many.receives, many.registered_bytes()));
        assert_eq!((few.receives, few.cq_entries), (512, 512 + 2 * 64 + 4096));
        assert!(few.queue_bytes < many.queue_bytes);
        // 256 KiB a peer.
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
