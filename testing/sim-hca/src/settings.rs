//! Properties of a fabric and its devices, and its faults.

use core::time::Duration;

use hca::{DeviceAttr, LinkLayer, Mtu};

/// Lifetime of an XRC receiving queue pair whose processes have all died or closed it, while its
/// domain has members.
///
/// Systems differ. A program that must work with both lets each process of the domain open the
/// queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TgtLife {
    /// Death does not close queue pairs: one lives until the last of its processes closes it, or
    /// its domain ends.
    Domain,
    /// It ends with the last live process that has made or opened it.
    Handles,
}

/// Probabilities of faults, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Loss of a packet or acknowledgement.
    pub loss: f64,
    /// A message finds no receive although there is one.
    pub rnr: f64,
    /// A send request fails immediately with a general error.
    pub send: f64,
    /// An object other than a registration cannot be made (`ENOMEM`).
    pub create: f64,
    /// Memory cannot be registered (`ENOMEM`).
    pub register: f64,
    /// A registration does not end (`EBUSY`).
    pub deregister: f64,
    /// Vendor-specific error code of failed completions.
    pub vendor_err: u32,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults { loss: 0.0, rnr: 0.0, send: 0.0, create: 0.0, register: 0.0, deregister: 0.0, vendor_err: 0 }
    }
}

/// Properties of a fabric.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Seed of all random decisions, which depend only on it and on the calls made.
    pub seed: u64,
    /// Minimum transit time of a packet.
    pub delay_min: Duration,
    /// Maximum transit time of a packet. With zero, posts and polls alone make everything happen
    /// except time-outs.
    pub delay_max: Duration,
    /// Lifetime of XRC receiving queue pairs.
    pub tgt_life: TgtLife,
    /// Initial faults.
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

/// Properties of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSettings {
    /// Its name.
    pub name: String,
    /// Its attributes. The fabric sets the node's identifier.
    pub attr: DeviceAttr,
    /// True if it has XRC.
    pub xrc: bool,
    /// Link layer: InfiniBand, or Ethernet (RoCE).
    pub link_layer: LinkLayer,
    /// MTU of all ports.
    pub mtu: Mtu,
    /// Maximum length of a message in bytes.
    pub max_msg_size: u32,
    /// Maximum length of inline data in bytes.
    pub max_inline: u32,
    /// Bytes that each process can register; `None` for no limit.
    pub memlock: Option<u64>,
    /// True if setting a shared receive queue's limit above its number of receives reports the
    /// event immediately. Devices differ.
    pub srq_limit_at_once: bool,
}

impl DeviceSettings {
    /// Makes an InfiniBand device with one port and all features.
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
                atomics: hca::AtomicCap::Device,
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
