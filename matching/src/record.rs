//! What a process says of its network interfaces.

use core::net::IpAddr;

use crate::reach::Reach;

/// Where a process's interfaces are.
///
/// The same addresses on both sides are the same interface if the places are the same, and an accident
/// (docker0) otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place {
    /// The kernel's boot id (`random(4)`); zeros if unknown.
    pub boot: [u8; 16],
    /// The network namespace's number within that kernel (`namespaces(7)`); 0 if unknown.
    pub netns: u64,
}

impl Place {
    /// Whether two processes see the same interfaces. What is unknown is nobody's place.
    pub fn is_same(&self, other: &Place) -> bool {
        self == other && self.netns != 0 && self.boot != [0; 16]
    }
}

/// What an interface is, as far as it matters to whom it can reach.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Kind {
    /// A device, or what a hypervisor shows as one.
    #[default]
    Physical,
    /// Part of one by tag.
    Vlan,
    /// Several together.
    Bond,
    /// One with further addresses (macvlan, ipvlan).
    Macvlan,
    /// An end of a virtual cable that is no bridge port: what a container has for its device.
    Veth,
    /// A bridge with a port that leads out of the host.
    BridgeOut,
    /// A bridge without one: docker0, virbr0, cni0.
    BridgeIn,
    /// A port of a bridge, which carries the bridge's traffic.
    Port,
    /// A tunnel over other interfaces: tun, wireguard, vxlan, gre, ipip.
    Tunnel,
    /// A dummy.
    Dummy,
    /// Any other that is point to point.
    PointToPoint,
    /// The loopback interface.
    Loopback,
}

impl Kind {
    /// Whether it leads, or may lead, to other hosts by itself: the first tier. The second is used only if the first one gives no pair.
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
    /// The address. A link-local one is meant with its interface as the scope.
    pub ip: IpAddr,
    /// Bits of the network part.
    pub prefix: u8,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Nic {
    /// Its name, at most 15 bytes on Linux.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// What it is.
    pub kind: Kind,
    /// Its addresses, of both families.
    pub addresses: Vec<Address>,
    /// Mb/s, if it is known.
    pub speed: Option<u32>,
    /// Bytes; 0 if it is not known.
    pub mtu: u32,
    /// Whether it is administratively up (`IFF_UP`).
    pub up: bool,
    /// Whether it has a carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
}

/// Numbers of what a host's record had no room for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cut {
    /// Interfaces.
    pub nics: u16,
    /// Addresses of interfaces that are in the record.
    pub addresses: u16,
    /// Destinations of its routing tables.
    pub routes: u16,
}

/// What a process says of all its interfaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Host {
    /// Where they are.
    pub place: Place,
    /// The interfaces.
    pub nics: Vec<Nic>,
    /// What the routing tables say; `None` if they could not be asked. See [`Host::ask`].
    pub reach: Option<Vec<Reach>>,
    /// What was cut off already.
    pub cut: Cut,
}
