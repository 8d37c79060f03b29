//! Objects: opening, binding, enabling and closing, and the required order.

use super::queue::Queue;
use super::region::Region;
use super::vector::Vector;
use super::{Face, Id, Port, Rx, State, Tx};
use crate::errno::{
    FI_EBADFLAGS, FI_EBUSY, FI_EINVAL, FI_ENOAV, FI_ENOCQ, FI_ENOPROTOOPT, FI_ENOSYS, FI_EOPBADSTATE,
};
use crate::settings::AddressFormat;
use libfabric_sys::consts::{FI_RECV, FI_SELECTIVE_COMPLETION, FI_TRANSMIT};

/// Classes of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Fabric,
    Domain,
    Vector,
    Queue,
    Region,
    Endpoint,
    Scalable,
    Tx,
    Rx,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Class::Fabric => "fabric",
            Class::Domain => "domain",
            Class::Vector => "address vector",
            Class::Queue => "completion queue",
            Class::Region => "memory region",
            Class::Endpoint => "endpoint",
            Class::Scalable => "scalable endpoint",
            Class::Tx => "transmit context",
            Class::Rx => "receive context",
        }
    }
}

/// Common state of all objects.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) class: Class,
    pub(crate) open: bool,
    pub(crate) parent: Option<Id>,
    pub(crate) domain: Option<Id>,
    /// Number of objects that must be closed before it.
    pub(crate) users: usize,
    /// Objects that must be closed after it.
    uses: Vec<Id>,
}

/// An application's request for an endpoint, from its `fi_info`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndpointRequest {
    pub(crate) caps: u64,
    pub(crate) tx_flags: u64,
    pub(crate) rx_flags: u64,
    /// Size of the transmit queue; 0 for the maximum.
    pub(crate) tx_size: usize,
    /// Size of the receive queue; 0 for the maximum.
    pub(crate) rx_size: usize,
    /// Transmit contexts of a scalable endpoint; 0 for one.
    pub(crate) tx_contexts: usize,
    /// Receive contexts of a scalable endpoint; 0 for one.
    pub(crate) rx_contexts: usize,
}

/// Default value of the option.
const DEFAULT_MIN_MULTI_RECV: usize = 64;

impl State {
    fn slot(&mut self, class: Class, parent: Option<Id>) -> Id {
        let domain = parent.and_then(|parent| match self.slots[parent.0].class {
            Class::Fabric => None,
            Class::Domain => Some(parent),
            _ => self.slots[parent.0].domain,
        });
        let id = Id(self.slots.len());
        self.slots.push(Slot { class, open: true, parent, domain, users: 0, uses: Vec::new() });
        if let Some(parent) = parent {
            self.uses(id, parent);
        }
        id
    }

    /// Records that `used` must stay open as long as `user`.
    pub(crate) fn uses(&mut self, user: Id, used: Id) {
        if !self.slots[user.0].uses.contains(&used) {
            self.slots[user.0].uses.push(used);
            self.slots[used.0].users += 1;
        }
    }

    /// Describes an object for messages.
    pub(crate) fn describe(&self, id: Id) -> String {
        format!("{} {}", self.slots[id.0].class.name(), id.0)
    }

    /// Checks that an object is open.
    pub(crate) fn live(&mut self, id: Id, call: &str) -> Result<(), i32> {
        if self.slots[id.0].open {
            return Ok(());
        }
        let object = self.describe(id);
        self.violation(format!("use after close: {call} on {object}"));
        Err(FI_EINVAL)
    }

    pub(crate) fn open_fabric(&mut self) -> Id {
        self.slot(Class::Fabric, None)
    }

    pub(crate) fn open_domain(&mut self, fabric: Id) -> Id {
        self.slot(Class::Domain, Some(fabric))
    }

    pub(crate) fn add_queue(&mut self, domain: Id, queue: Queue) -> Id {
        let id = self.slot(Class::Queue, Some(domain));
        self.queues.insert(id, queue);
        id
    }

    pub(crate) fn add_vector(&mut self, domain: Id, vector: Vector) -> Id {
        let id = self.slot(Class::Vector, Some(domain));
        self.vectors.insert(id, vector);
        id
    }

    pub(crate) fn add_region(&mut self, domain: Id, region: Region) -> Id {
        let id = self.slot(Class::Region, Some(domain));
        self.regions.insert(id, region);
        id
    }

    /// Opens an endpoint. If `scalable`, its contexts are opened separately.
    pub(crate) fn open_endpoint(
        &mut self,
        domain: Id,
        request: EndpointRequest,
        scalable: bool,
    ) -> Result<Id, i32> {
        let (tx, rx) = if scalable {
            if self.settings.max_ep_tx_ctx <= 1 && self.settings.max_ep_rx_ctx <= 1 {
                return Err(FI_ENOSYS);
            }
            (request.tx_contexts.max(1), request.rx_contexts.max(1))
        } else {
            (1, 1)
        };
        if tx > self.settings.max_ep_tx_ctx || rx > self.settings.max_ep_rx_ctx {
            return Err(FI_EINVAL);
        }
        if request.tx_size > self.settings.tx_size || request.rx_size > self.settings.rx_size {
            return Err(FI_EINVAL);
        }
        let or = |size: usize, most: usize| if size == 0 { most } else { size };
        let tx_size = or(request.tx_size, self.settings.tx_size);
        let rx_size = or(request.rx_size, self.settings.rx_size);
        let port = self.ports.len();
        let address = self.make_address(port);
        let make_tx = || Tx { open: !scalable, op_flags: request.tx_flags, size: tx_size, ..Tx::default() };
        let make_rx = || Rx {
            open: !scalable,
            op_flags: request.rx_flags,
            size: rx_size,
            min_multi_recv: DEFAULT_MIN_MULTI_RECV,
            ..Rx::default()
        };
        self.addresses.insert(address.clone(), port);
        self.ports.push(Port {
            domain,
            address,
            caps: request.caps,
            scalable,
            vector: None,
            enabled: false,
            closed: false,
            dead: false,
            stalled: false,
            tx: (0..tx).map(|_| make_tx()).collect(),
            rx: (0..rx).map(|_| make_rx()).collect(),
        });
        let id = self.slot(if scalable { Class::Scalable } else { Class::Endpoint }, Some(domain));
        let side = (!scalable).then_some(0);
        self.faces.insert(id, Face { port, tx: side, rx: side });
        Ok(id)
    }

    /// Opens a transmit context (`tx`) or receive context of a scalable endpoint.
    pub(crate) fn open_context(&mut self, endpoint: Id, index: usize, tx: bool) -> Result<Id, i32> {
        let port = self.faces[&endpoint].port;
        let is_open = if tx {
            self.ports[port].tx.get(index).map(|tx| tx.open)
        } else {
            self.ports[port].rx.get(index).map(|rx| rx.open)
        };
        if !self.ports[port].scalable || is_open != Some(false) {
            let object = self.describe(endpoint);
            self.violation(format!("context {index} of {object}: there is none, or it is open already"));
            return Err(FI_EINVAL);
        }
        let class = if tx { Class::Tx } else { Class::Rx };
        let id = self.slot(class, Some(endpoint));
        if tx {
            self.ports[port].tx[index].open = true;
        } else {
            self.ports[port].rx[index].open = true;
        }
        let face = Face { port, tx: tx.then_some(index), rx: (!tx).then_some(index) };
        self.faces.insert(id, face);
        Ok(id)
    }

    /// `fi_ep_bind`.
    pub(crate) fn bind_endpoint(&mut self, id: Id, to: Id, flags: u64) -> Result<(), i32> {
        self.live(to, "fi_ep_bind to it")?;
        let face = self.faces[&id];
        if self.slots[id.0].domain != self.slots[to.0].domain {
            let (a, b) = (self.describe(id), self.describe(to));
            self.violation(format!("{a} and {b} are bound, and of different domains"));
            return Err(FI_EINVAL);
        }
        let port = &mut self.ports[face.port];
        match self.slots[to.0].class {
            Class::Vector if self.slots[id.0].class != Class::Tx && self.slots[id.0].class != Class::Rx => {
                port.vector = Some(to);
            }
            Class::Queue => {
                if flags & !(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
                    return Err(FI_EBADFLAGS);
                }
                let (tx, rx) = (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0);
                // A scalable endpoint itself neither sends nor receives: its contexts are bound.
                if !(tx || rx) || (tx && face.tx.is_none()) || (rx && face.rx.is_none()) {
                    let object = self.describe(id);
                    self.violation(format!(
                        "{object}: it has nothing to bind to a queue with flags {flags:#x}"
                    ));
                    return Err(FI_EINVAL);
                }
                if let (true, Some(side)) = (tx, face.tx) {
                    port.tx[side].queue = Some(to);
                    port.tx[side].selective = flags & FI_SELECTIVE_COMPLETION != 0;
                }
                if let (true, Some(side)) = (rx, face.rx) {
                    port.rx[side].queue = Some(to);
                }
                if let Some(queue) = self.queues.get_mut(&to) {
                    queue.add_port(face.port);
                }
            }
            _ => {
                let (a, b) = (self.describe(id), self.describe(to));
                self.violation(format!("{a} cannot be bound to {b}"));
                return Err(FI_EINVAL);
            }
        }
        self.uses(id, to);
        Ok(())
    }

    /// `fi_enable` of an endpoint or of a context.
    pub(crate) fn enable_endpoint(&mut self, id: Id) -> Result<(), i32> {
        let face = self.faces[&id];
        let port = &self.ports[face.port];
        let lacks = if port.vector.is_none() {
            Some((FI_ENOAV, "address vector"))
        } else if face.tx.is_some_and(|side| port.tx[side].queue.is_none())
            || face.rx.is_some_and(|side| port.rx[side].queue.is_none())
        {
            Some((FI_ENOCQ, "completion queue"))
        } else {
            None
        };
        if let Some((error, what)) = lacks {
            let object = self.describe(id);
            self.violation(format!("{object} is enabled without {what}"));
            return Err(error);
        }
        let port = &mut self.ports[face.port];
        if let Some(side) = face.tx {
            port.tx[side].enabled = true;
        }
        if let Some(side) = face.rx {
            port.rx[side].enabled = true;
        }
        if matches!(self.slots[id.0].class, Class::Endpoint | Class::Scalable) {
            port.enabled = true;
        }
        Ok(())
    }

    /// `FI_OPT_MIN_MULTI_RECV`.
    pub(crate) fn set_min_multi_recv(&mut self, id: Id, bytes: usize) -> Result<(), i32> {
        let face = self.faces[&id];
        let Some(side) = face.rx else { return Err(FI_ENOPROTOOPT) };
        self.ports[face.port].rx[side].min_multi_recv = bytes;
        Ok(())
    }

    /// Returns an endpoint's address; only enabled endpoints have one.
    pub(crate) fn name_of(&mut self, id: Id) -> Result<Vec<u8>, i32> {
        let port = &self.ports[self.faces[&id].port];
        if !port.enabled {
            let object = self.describe(id);
            self.violation(format!("fi_getname of {object}, which is not enabled"));
            return Err(FI_EOPBADSTATE);
        }
        Ok(port.address.clone())
    }

    /// `fi_close`.
    pub(crate) fn close(&mut self, id: Id) -> Result<(), i32> {
        self.live(id, "fi_close")?;
        if self.slots[id.0].users != 0 {
            let (object, users) = (self.describe(id), self.users_of(id));
            self.violation(format!("order of closing: {object} is closed before {users}"));
            return Err(FI_EBUSY);
        }
        match self.slots[id.0].class {
            Class::Region => self.close_region(id),
            Class::Queue => {
                self.queues.remove(&id);
            }
            Class::Vector => {
                self.vectors.remove(&id);
            }
            Class::Endpoint | Class::Scalable => self.close_port(self.faces[&id].port),
            Class::Tx | Class::Rx => self.close_side(self.faces[&id]),
            Class::Fabric | Class::Domain => (),
        }
        self.slots[id.0].open = false;
        for used in std::mem::take(&mut self.slots[id.0].uses) {
            self.slots[used.0].users -= 1;
        }
        Ok(())
    }

    fn users_of(&self, id: Id) -> String {
        let users = (0..self.slots.len()).filter(|user| self.slots[*user].uses.contains(&id));
        users.map(|user| self.describe(Id(user))).collect::<Vec<_>>().join(", ")
    }

    fn close_port(&mut self, port: usize) {
        let under_way = |op: &&super::Op| op.face.port == port && op.face.tx.is_some() && op.counted;
        if !self.ports[port].dead {
            self.abandoned += self.ops.values().filter(under_way).count();
        }
        self.ports[port].closed = true;
        self.drop_port(port);
        self.settle_closed(port);
        for queue in self.queues.values_mut() {
            queue.remove_port(port);
        }
    }

    fn close_side(&mut self, face: Face) {
        let lost: Vec<u64> = self.ops.iter().filter(|(_, op)| op.face == face).map(|(id, _)| *id).collect();
        for id in lost {
            let op = &self.ops[&id];
            if op.counted && !self.ports[face.port].dead {
                self.abandoned += 1;
            }
            self.forget(id);
            for queue in self.queues.values_mut() {
                queue.forget_op(id);
            }
        }
        let port = &mut self.ports[face.port];
        if let Some(side) = face.tx {
            port.tx[side] =
                Tx { op_flags: port.tx[side].op_flags, size: port.tx[side].size, ..Tx::default() };
        }
        if let Some(side) = face.rx {
            port.rx[side] = Rx {
                op_flags: port.rx[side].op_flags,
                size: port.rx[side].size,
                coming: port.rx[side].coming,
                min_multi_recv: DEFAULT_MIN_MULTI_RECV,
                ..Rx::default()
            };
        }
    }

    fn make_address(&mut self, port: usize) -> Vec<u8> {
        match self.settings.address {
            AddressFormat::Inet => {
                // `sockaddr_in`: family in host byte order, port and address in network byte order.
                let mut address = [0u8; 16];
                address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                address[2..4].copy_from_slice(&(20_000 + (port % 40_000) as u16).to_be_bytes());
                address[4..8].copy_from_slice(&self.host_address());
                address[4 + 3] = 1 + (port / 40_000) as u8;
                address.to_vec()
            }
            AddressFormat::Text(most) => {
                let mut text = format!("fake://{}/{port}/", self.name).into_bytes();
                // The first is the longest; the others differ in length.
                let least = text.len() + 1;
                let longest = most.clamp(40, 300).max(least);
                let len = longest - port * 7 % (longest - least + 1);
                text.resize(len - 1, b'x');
                text.push(0);
                text
            }
        }
    }

    /// Returns the IP address of the world's only host.
    pub(crate) fn host_address(&self) -> [u8; 4] {
        [10, (self.number >> 8) as u8, self.number as u8, 1]
    }
}
