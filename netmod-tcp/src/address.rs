//! Where a process listens, and what its business card says about that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::config::TcpConfig;
use netmod_core::card::{BodyReader, BodyWriter};
use netmod_core::{Card, CardError, CardWriter, DeviceError};
use netmod_matching::wire;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::NAME;
use crate::own::{Own, Published};

/// Name of the card's section.
pub(crate) const SECTION: &str = "tcp";
const SECTION_VERSION: u16 = 5;
/// Connections that may wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// The listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Socket,
    pub(crate) port: u16,
}

fn error(text: String) -> DeviceError {
    DeviceError::new(NAME, text)
}

/// Opens the listening socket: on all addresses of both families, or on the only one that is published; at the port
/// `wish` if that is free, or not 0.
pub(crate) fn listen(cfg: &TcpConfig, own: &mut Own, wish: u16) -> Result<Listener, DeviceError> {
    let bind_to: Vec<IpAddr> = match own.only_address() {
        Some(ip) => vec![ip],
        // IPv4-only kernels have no IPv6 sockets at all.
        None => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
    };
    let mut last = None;
    for ip in bind_to {
        match listen_on(ip, cfg, wish) {
            Ok(socket) => {
                let at = socket.local_addr().ok().and_then(|a| a.as_socket());
                let port = at.ok_or_else(|| error("the listening socket has no address".into()))?.port();
                if ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
                    own.without_ipv6()?;
                }
                return Ok(Listener { socket, port });
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

/// Writes the section: flags u8 (loopback addresses at which this process listens: 1 of IPv4, 2 of IPv6), port u16,
/// length u16 and the record of the interfaces ([`netmod_matching::wire`]).
pub(crate) fn emit(own: &Published, port: u16, card: &mut CardWriter) -> Result<(), CardError> {
    let [v4, v6] = own.loopback.map(u8::from);
    let record = wire::encode(&own.host);
    let mut body = BodyWriter::new();
    body.u8(v4 | v6 << 1).u16(port).bytes(&record);
    card.section(SECTION, SECTION_VERSION, body.as_bytes())
}

/// What a card says: the interfaces, and the port.
///
/// # Errors
/// What is wrong with the section, or that there is none.
pub(crate) fn parse(card: &Card) -> Result<(Published, u16), String> {
    let section = card.section(SECTION).ok_or("the peer does not offer tcp")?;
    if section.version != SECTION_VERSION {
        return Err(format!(
            "its card's tcp section is of version {}, not {SECTION_VERSION}; do both sides run the same version?",
            section.version
        ));
    }
    let mut body = BodyReader::new("the tcp section", section.body).allow_trailing();
    let mut read = || Ok((body.u8("flags")?, body.u16("port")?, body.bytes("record of the interfaces")?));
    let (flags, port, record) = read().map_err(|e: CardError| e.to_string())?;
    let host = wire::parse(record).map_err(|e| e.to_string())?;
    Ok((Published { host, loopback: [flags & 1 != 0, flags & 2 != 0] }, port))
}
