//! What a fabric and its devices are like, and what goes wrong.

use core::time::Duration;

use hca::{DeviceAttr, LinkLayer, Mtu};

/// How long a receiving XRC queue pair lives whose processes have all died or closed it, while its domain has members.
///
/// Systems differ. Who wants to live with both has each process of the domain open the queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgtLife {
    /// Death closes no queue pair: it lives until the last of its processes closes it, or its domain ends.
    Domain,
    /// It ends with the last process that has made or opened it and lives.
    Handles,
}

/// What goes wrong. Probabilities are from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// A packet, acknowledgements among them, is lost.
    pub loss: f64,
    /// A message that needs a receive finds none although there is one.
    pub rnr: f64,
    /// A request of the send queue fails at once with a general error.
    pub send: f64,
    /// An object other than a registration cannot be made (`ENOMEM`).
    pub create: f64,
    /// Memory cannot be registered (`ENOMEM`).
    pub register: f64,
    /// A registration does not end (`EBUSY`).
    pub deregister: f64,
    /// What completions with errors say to the device's maker.
    pub vendor_err: u32,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults { loss: 0.0, rnr: 0.0, send: 0.0, create: 0.0, register: 0.0, deregister: 0.0, vendor_err: 0 }
    }
}

/// What a fabric is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Everything that chance decides follows from it and from the calls that are made.
    pub seed: u64,
    /// Least time that a packet takes.
    pub delay_min: Duration,
    /// Most time that a packet takes. With zero everything but time-outs happens by posts and polls alone.
    pub delay_max: Duration,
    /// Life of receiving XRC queue pairs.
    pub tgt_life: TgtLife,
    /// What goes wrong from the beginning.
    pub faults: Faults,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 1,
            delay_min: Duration::from_nanos(200),
            delay_max: Duration::from_micros(2),
            tgt_life: TgtLife::Domain,
            faults: Faults::default(),
        }
    }
}

/// What a device is like.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSettings {
    /// Its name.
    pub name: String,
    /// What it says of itself. The node's identifier is made by the fabric.
    pub attr: DeviceAttr,
    /// Whether there is XRC.
    pub xrc: bool,
    /// InfiniBand, or Ethernet (RoCE).
    pub link_layer: LinkLayer,
    /// Of all ports.
    pub mtu: Mtu,
    /// Bytes of the longest message.
    pub max_msg_size: u32,
    /// Most bytes that can be sent inline.
    pub max_inline: u32,
    /// Bytes that each process can register; `None`: all.
    pub memlock: Option<u64>,
    /// Whether the event of a shared receive queue's limit comes at once if fewer receives are left when it is set. Devices differ.
    pub srq_limit_at_once: bool,
}

impl DeviceSettings {
    /// An InfiniBand device with one port and with everything.
    pub fn new(name: impl Into<String>) -> DeviceSettings {
        DeviceSettings {
            name: name.into(),
            attr: DeviceAttr {
                node_guid: 0,
                ports: 1,
                max_qp: 100_000,
                max_qp_wr: 16_384,
                max_sge: 30,
                max_sge_rd: 30,
                max_cq: 100_000,
                max_cqe: 1 << 20,
                max_mr: 1 << 20,
                max_mr_size: 1 << 40,
                max_ah: 1 << 20,
                max_srq: 65_536,
                max_srq_wr: 32_767,
                max_srq_sge: 31,
                max_qp_rd_atom: 16,
                max_qp_init_rd_atom: 16,
                atomics: true,
                path_migration: true,
                xrc_claimed: true,
            },
            xrc: true,
            link_layer: LinkLayer::InfiniBand,
            mtu: Mtu::B4096,
            max_msg_size: 1 << 30,
            max_inline: 220,
            memlock: None,
            srq_limit_at_once: false,
        }
    }
}
