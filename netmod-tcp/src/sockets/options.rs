//! Options of sockets, and sockets that are to be connected.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::config::TcpConfig;
use crate::pulse::LOOKS;
use crate::route::{Route, is_link_local};
use crate::sys;

/// Resolution of the kernel's keepalive.
const SECOND: Duration = Duration::from_secs(1);

/// Sets what every connection wants of its socket.
pub(crate) fn prepare(socket: &Socket, detect: Duration) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if detect.is_zero() {
        return Ok(());
    }
    keep_alive(socket, detect)
}

/// Has the kernel ask an idle connection's peer, so that the answer is known within `detect`.
fn keep_alive(socket: &Socket, detect: Duration) -> io::Result<()> {
    let ka = TcpKeepalive::new()
        .with_time((detect / 2).max(SECOND))
        .with_interval((detect / 8).max(SECOND))
        .with_retries(3);
    socket.set_tcp_keepalive(&ka)?;
    // Otherwise window probes to a peer that has not read for long are up to two minutes apart.
    // Older kernels have no such option, and do without.
    sys::limit_retransmission_pause(socket.as_raw_fd(), (detect / LOOKS).max(SECOND));
    Ok(())
}

/// Sets the kernel's buffers if the configuration asks for it.
pub(super) fn buffer_sizes(socket: &Socket, cfg: &TcpConfig) -> io::Result<()> {
    if cfg.sndbuf > 0 {
        socket.set_send_buffer_size(cfg.sndbuf)?;
    }
    if cfg.rcvbuf > 0 {
        socket.set_recv_buffer_size(cfg.rcvbuf)?;
    }
    Ok(())
}

/// Begins to connect a socket by a route.
///
/// A pinned socket goes by no other interface. One that is not pinned goes by whatever interface
/// the system likes, from the same address: where hosts answer for all their addresses by each
/// interface, answers may come by another one, and a pinned socket would not hear them.
///
/// # Errors
/// Fails if the system refuses.
pub(crate) fn connect(cfg: &TcpConfig, route: &Route, port: u16, pinned: bool) -> io::Result<Socket> {
    let at = route.at(port);
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    buffer_sizes(&socket, cfg)?;
    prepare(&socket, cfg.detect)?;
    // The port that the system chooses may be that of a process that is being checkpointed.
    socket.set_reuse_address(true)?;
    if let Some(via) = &route.via {
        // A source address does not choose the interface; older systems let only root choose it.
        let device = if pinned || is_link_local(via.from) { Some(via.device.as_bytes()) } else { None };
        match socket.bind_device(device) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                tracing::debug!(device = %via.device, "interfaces are not chosen without CAP_NET_RAW");
            }
            other => other?,
        }
        let scope = if is_link_local(via.from) { via.mine } else { 0 };
        let from = match via.from {
            IpAddr::V4(_) => SocketAddr::new(via.from, 0),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, scope).into(),
        };
        sys::bind_without_port(&socket)?;
        socket.bind(&SockAddr::from(from))?;
    }
    match socket.connect(&SockAddr::from(at)) {
        Ok(()) => Ok(socket),
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(socket),
        Err(e) => Err(e),
    }
}
