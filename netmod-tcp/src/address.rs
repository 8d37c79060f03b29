//! Where a process listens, and what its business card says about that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use netmod_core::card::{BodyReader, BodyWriter, NodeSection};
use netmod_core::config::TcpConfig;
use netmod_core::{Card, CardError, CardWriter, DeviceError};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::NAME;
use crate::sys;
use crate::way::{Way, Ways};

/// Name of the card's section.
pub(crate) const SECTION: &str = "tcp";
const SECTION_VERSION: u16 = 1;
/// More addresses than this are not published: no machine needs them to be found.
const MAX_ADDRESSES: usize = 64;
/// Connections that may wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// The listening socket and the addresses under which it can be reached.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Socket,
    /// Loopback addresses come last: they serve peers of the same node.
    pub(crate) addrs: Vec<SocketAddr>,
}

fn error(text: String) -> DeviceError {
    DeviceError::new(NAME, text)
}

/// The addresses that `NETMOD_TCP_INTERFACE` stands for; all that are up if it is empty.
fn chosen_addresses(interface: &str) -> Result<Vec<sys::IfAddr>, DeviceError> {
    let all =
        sys::interface_addresses().map_err(|e| error(format!("cannot list network interfaces: {e}")))?;
    let wanted_ip: Option<IpAddr> = interface.parse().ok();
    let mut chosen: Vec<_> = all
        .iter()
        .filter(|a| a.up && (interface.is_empty() || a.name == interface || Some(a.addr) == wanted_ip))
        .cloned()
        .collect();
    if chosen.is_empty() {
        let mut names: Vec<String> = all
            .iter()
            .map(|a| format!("{} ({}{})", a.name, a.addr, if a.up { "" } else { ", down" }))
            .collect();
        names.dedup();
        return Err(error(if interface.is_empty() {
            "no network interface is up, not even loopback".into()
        } else {
            format!(
                "NETMOD_TCP_INTERFACE={interface} is neither an interface nor an address that is up here; there are: {}",
                names.join(", ")
            )
        }));
    }
    // Global addresses first, loopback last; otherwise as the system lists them.
    chosen.sort_by_key(|a| (a.loopback, a.addr.is_ipv6()));
    chosen.truncate(MAX_ADDRESSES);
    Ok(chosen)
}

/// Opens the listening socket: on all addresses of both families, or on those of one interface; at the port
/// `wish` if that is free, or not 0.
pub(crate) fn listen(cfg: &TcpConfig, wish: u16) -> Result<Listener, DeviceError> {
    let addrs = chosen_addresses(&cfg.interface)?;
    let bind_to: Vec<IpAddr> = if let [only] = &addrs[..]
        && !cfg.interface.is_empty()
    {
        vec![only.addr]
    } else {
        // IPv4-only kernels have no IPv6 sockets at all.
        vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)]
    };
    let mut last = None;
    for ip in bind_to {
        match listen_on(ip, cfg, wish) {
            Ok(socket) => {
                let port = socket
                    .local_addr()
                    .ok()
                    .and_then(|a| a.as_socket())
                    .ok_or_else(|| error("the listening socket has no address".into()))?
                    .port();
                let dual = ip.is_ipv6();
                let addrs = addrs
                    .iter()
                    .filter(|a| dual || a.addr.is_ipv4())
                    .map(|a| match a.addr {
                        IpAddr::V4(v4) => SocketAddr::from((v4, port)),
                        IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, a.scope).into(),
                    })
                    .collect();
                return Ok(Listener { socket, addrs });
            }
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| error("nothing to listen on".into())))
}

fn listen_on(ip: IpAddr, cfg: &TcpConfig, wish: u16) -> Result<Socket, DeviceError> {
    let open = |port: u16| -> std::io::Result<Socket> {
        let at = SocketAddr::from((ip, port));
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        if ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            socket.set_only_v6(false)?;
        }
        buffer_sizes(&socket, cfg)?;
        socket.set_nonblocking(true)?;
        if port == 0 {
            socket.bind(&SockAddr::from(at))?;
        }
        // Connections that are closed keep the port for a minute; with this they do not keep it from its listener.
        // When the system chooses the port it must not choose one that another socket would share.
        socket.set_reuse_address(true)?;
        if port != 0 {
            socket.bind(&SockAddr::from(at))?;
        }
        socket.listen(BACKLOG)?;
        Ok(socket)
    };
    if wish != 0
        && let Ok(socket) = open(wish)
    {
        return Ok(socket);
    }
    let Some(range) = cfg.port_range else {
        return open(0).map_err(|e| error(format!("cannot listen on {ip}: {e}")));
    };
    let mut last = None;
    for port in range.first..=range.last {
        match open(port) {
            Ok(s) => return Ok(s),
            Err(e) => last = Some(e),
        }
    }
    let why = last.map_or_else(|| "the range is empty".to_string(), |e| e.to_string());
    Err(error(format!(
        "no port of NETMOD_TCP_PORT_RANGE={}-{} can be listened on at {ip} (the last one: {why}); is the range as large as the number of ranks on this node?",
        range.first, range.last
    )))
}

/// Sets the kernel's buffers if the configuration asks for it.
pub(crate) fn buffer_sizes(socket: &Socket, cfg: &TcpConfig) -> std::io::Result<()> {
    if cfg.sndbuf > 0 {
        socket.set_send_buffer_size(cfg.sndbuf)?;
    }
    if cfg.rcvbuf > 0 {
        socket.set_recv_buffer_size(cfg.rcvbuf)?;
    }
    Ok(())
}

/// Writes the section: number of addresses, then of each family (4 or 6), port, scope and address.
pub(crate) fn emit(addrs: &[SocketAddr], card: &mut CardWriter) -> Result<(), CardError> {
    let mut body = BodyWriter::new();
    body.u8(addrs.len() as u8);
    for a in addrs {
        match a {
            SocketAddr::V4(v4) => body.u8(4).u16(v4.port()).u32(0).raw(&v4.ip().octets()),
            SocketAddr::V6(v6) => body.u8(6).u16(v6.port()).u32(v6.scope_id()).raw(&v6.ip().octets()),
        };
    }
    card.section(SECTION, SECTION_VERSION, body.as_bytes())
}

/// The addresses of a card, if it has a section of this netmod.
pub(crate) fn parse(card: &Card) -> Result<Option<Vec<SocketAddr>>, CardError> {
    let Some(section) = card.section(SECTION) else { return Ok(None) };
    let mut body = BodyReader::new("the tcp section", section.body).allow_trailing();
    let n = usize::from(body.u8("number of addresses")?).min(MAX_ADDRESSES);
    let mut addrs = Vec::with_capacity(n);
    for _ in 0..n {
        let family = body.u8("address family")?;
        let port = body.u16("port")?;
        let scope = body.u32("scope")?;
        match family {
            4 => addrs.push(SocketAddr::from((body.array::<4>("IPv4 address")?, port))),
            _ => {
                let ip = Ipv6Addr::from(body.array::<16>("IPv6 address")?);
                addrs.push(SocketAddrV6::new(ip, port, 0, scope).into());
            }
        }
    }
    body.finish()?;
    Ok(Some(addrs))
}

/// Orders a peer's addresses by how likely they are to work from here: on the same node loopback, else
/// what is not loopback and not link-local first. Empty if none can work.
pub(crate) fn usable(card: &Card, here: Option<&NodeSection>) -> Result<Ways, String> {
    let mut addrs = parse(card).map_err(|e| e.to_string())?.ok_or("the peer does not offer tcp")?;
    let same_node = match (here, card.node()) {
        (Some(h), Ok(there)) => h.same_node(&there),
        _ => false,
    };
    addrs.retain(|a| same_node || !a.ip().is_loopback());
    addrs.sort_by_key(|a| {
        let link_local = matches!(a.ip(), IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80);
        (if same_node { !a.ip().is_loopback() } else { false }, link_local)
    });
    if addrs.is_empty() {
        return Err("the peer is on another node and offers only loopback addresses".into());
    }
    let port = addrs[0].port();
    let list = addrs.iter().map(|a| Way { to: a.ip(), via: None }).collect();
    Ok(Ways { list, port, agreement: 0 })
}
