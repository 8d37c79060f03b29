//! The record in which a process describes its network interfaces.

use core::net::IpAddr;

use crate::route::Answer;

/// The kernel and network namespace that a process's interfaces belong to.
///
/// Equal addresses on both sides are the same interface if the locations are the same, and a
/// coincidence (docker0) otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Location {
    /// Boot id of the kernel (`random(4)`); zeros if unknown.
    pub boot: [u8; 16],
    /// Number of the network namespace within that kernel (`namespaces(7)`); 0 if unknown.
    pub netns: u64,
}

impl Location {
    /// Returns true if two processes see the same interfaces. False if either location is unknown.
    pub fn is_same(&self, other: &Location) -> bool {
        self == other && self.netns != 0 && self.boot != [0; 16]
    }
}

/// The kind of an interface, as far as it matters for reachability.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Kind {
    /// A device, or what a hypervisor presents as one.
    #[default]
    Physical,
    /// A VLAN, part of another interface by tag.
    Vlan,
    /// Several interfaces bonded together.
    Bond,
    /// An interface on top of another one (macvlan, ipvlan).
    Macvlan,
    /// An end of a virtual cable that is no bridge port; typically a container's interface.
    Veth,
    /// A bridge with a port that leads out of the host.
    BridgeOut,
    /// A bridge without such a port: docker0, virbr0, cni0.
    BridgeIn,
    /// A port of a bridge, which carries the bridge's traffic.
    Port,
    /// A tunnel over other interfaces: tun, wireguard, vxlan, gre, ipip.
    Tunnel,
    /// A dummy interface.
    Dummy,
    /// Any other point-to-point interface.
    PointToPoint,
    /// The loopback interface.
    Loopback,
}

impl Kind {
    /// Returns true if it leads, or may lead, to other hosts by itself: the first tier.
    ///
    /// The second tier is used only if the first one gives no pair.
    pub fn is_first_tier(self) -> bool {
        matches!(
            self,
            Kind::Physical | Kind::Vlan | Kind::Bond | Kind::Macvlan | Kind::Veth | Kind::BridgeOut
        )
    }
}

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// The address. A link-local one has its interface as the scope.
    pub ip: IpAddr,
    /// Length of the network part in bits.
    pub prefix: u8,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nic {
    /// Name, at most 15 bytes on Linux.
    pub name: String,
    /// Kernel's number of the interface.
    pub index: u32,
    /// Kind of the interface.
    pub kind: Kind,
    /// Addresses of both families.
    pub addresses: Vec<Address>,
    /// Speed in Mb/s, if known.
    pub speed: Option<u32>,
    /// MTU in bytes; 0 if unknown.
    pub mtu: u32,
    /// True if it is administratively up (`IFF_UP`).
    pub up: bool,
    /// True if it has a carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
}

/// A routing table's answer for packets from one address of an interface to one destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reach {
    /// Kernel's number of the interface (`Nic::index`).
    pub index: u32,
    /// Source: an address of that interface.
    pub from: IpAddr,
    /// Destination's network, zero behind its prefix.
    pub net: IpAddr,
    /// Length of the network part in bits.
    pub prefix: u8,
    /// Answer for addresses that no longer prefix covers.
    pub answer: Answer,
}

/// Counts of what did not fit into a host's record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cut {
    /// Interfaces.
    pub nics: u16,
    /// Addresses of interfaces that are in the record.
    pub addresses: u16,
    /// Destinations of the routing tables.
    pub routes: u16,
}

/// The record of a process: all its interfaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Host {
    /// Location of the interfaces.
    pub location: Location,
    /// The interfaces.
    pub nics: Vec<Nic>,
    /// Answers of the routing tables; `None` if they could not be asked. See [`Host::ask`].
    pub reach: Option<Vec<Reach>>,
    /// Counts of what was cut off already.
    pub cut: Cut,
}
