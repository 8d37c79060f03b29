//! Compares `netmod_verbs::resources` with jobs over simulated devices: queue pairs and registered
//! memory.

mod world;

use std::time::Duration;

use netmod_verbs::VerbsConfig;
use netmod_verbs::resources::{Job, QueuePairs, Resources, Sizes, Transport};
use world::{Setting, World};

/// Endpoints of crossing dials are closed as soon as the device reports that they are empty.
const REST: Duration = Duration::from_millis(100);

/// Returns the settings for a job over this transport, if the netmod has it.
fn settings(transport: Transport, nodes: usize, per_node: usize) -> Option<Setting> {
    let setting = Setting::new(nodes, per_node);
    match transport {
        Transport::RcSrq => Some(setting),
        // The netmod always shares receives between queue pairs.
        Transport::Rc => None,
        Transport::Xrc => Some(Setting { cfg: VerbsConfig { xrc: true, ..setting.cfg }, ..setting }),
    }
}

/// Runs a job in which these pairs exchange messages, and compares the counts.
fn check(nodes: usize, per_node: usize, talks: &[(u32, u32)]) {
    let job = Job { nodes: nodes as u32, per_node: per_node as u32, near: false };
    for transport in Transport::ALL {
        let Some(setting) = settings(transport, nodes, per_node) else { continue };
        let sizes = Sizes::new(&setting.cfg, &setting.device.attr, setting.device.mtu);
        let mut w = World::new(&setting);
        for (a, b) in talks {
            w.send(*a as usize, *b as usize, 8);
            w.send(*b as usize, *a as usize, 8);
        }
        w.until("all came", World::all_came);
        let rest = w.now + REST;
        w.until("all rest", |w| w.now >= rest);
        let mut of_fabric = nodes * per_node;
        for node in 0..nodes {
            let of_node = QueuePairs::counted(transport, job, talks, (node * per_node) as u32).of_node;
            of_fabric += of_node as usize;
            for rank in node * per_node..(node + 1) * per_node {
                let qps = QueuePairs::counted(transport, job, talks, rank as u32);
                let resources = Resources::of(transport, qps, &sizes);
                let has = w.counts(rank);
                let what = format!("{transport:?}, {job:?}, rank {rank}: {has:?}");
                // One queue pair is for datagrams.
                assert_eq!(has.qps as u64, qps.own + 1, "{what}");
                assert_eq!(has.bytes, resources.registered_bytes(), "{what}");
                assert_eq!((has.cqs, has.mrs), (1, 3), "{what}");
                of_fabric += qps.own as usize;
            }
        }
        assert_eq!(w.fabric.leaks().qps, of_fabric, "{transport:?}, {job:?}");
        w.end();
    }
}

/// Returns all pairs of ranks of different nodes.
fn everybody(nodes: u32, per_node: u32) -> Vec<(u32, u32)> {
    let ranks = nodes * per_node;
    let far = |(a, b): &(u32, u32)| a / per_node != b / per_node;
    (0..ranks).flat_map(|a| (0..a).map(move |b| (a, b))).filter(far).collect()
}

#[test]
fn everybody_with_everybody() {
    for (nodes, per_node) in [(2, 2), (3, 2), (4, 4)] {
        check(nodes, per_node, &everybody(nodes as u32, per_node as u32));
    }
}

#[test]
fn nobody_with_anybody() {
    check(3, 2, &[]);
}

#[test]
fn only_those_who_talk_take_something() {
    // In a ring, to the same position of the next node.
    let ring: Vec<(u32, u32)> = (0..12).map(|r| (r, (r + 3) % 12)).collect();
    check(4, 3, &ring);
    // All with rank 0.
    let star: Vec<(u32, u32)> = (3..12).map(|r| (r, 0)).collect();
    check(4, 3, &star);
    check(3, 2, &[(0, 2), (0, 3), (1, 2)]);
}
