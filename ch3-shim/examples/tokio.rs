//! MPI messages and ordinary sockets in one event loop: the device's descriptor is watched by
//! tokio.
//!
//! Start it as a job of two: `nmrun -n 2 target/debug/examples/tokio`. The ranks play ping-pong
//! while rank 0 serves, and rank 1 uses, an echo server of tokio's; both go on in the same thread.

#![allow(unsafe_code)]

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use ch3_shim::{Completion, Device, Request};
use netmod_core::{Arm, Time};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ROUNDS: i32 = 200;

/// A device with its descriptor in tokio's reactor.
struct Loop {
    dev: Device,
    fd: AsyncFd<OwnedFd>,
}

impl Loop {
    fn new(mut dev: Device) -> Result<Loop> {
        let fd = dev.wait_fd()?.try_clone_to_owned()?;
        // SAFETY: an owned descriptor stays open, and the same, as long as the reactor has it.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Loop { dev, fd })
    }

    /// Waits for a request as [`ch3_shim::Vci::wait_fd`] says, while tokio does other things.
    async fn wait(&mut self, mut req: Request) -> Result<Completion> {
        loop {
            req = match self.dev.test(req)? {
                Ok(done) => return Ok(done),
                Err(req) => req,
            };
            if self.dev.arm() == Arm::Armed {
                self.event().await?;
            }
        }
    }

    /// Waits until the descriptor is readable or the device's deadline is there.
    async fn event(&mut self) -> Result<()> {
        let now = self.dev.now();
        let limit = self.dev.deadline().unwrap_or(Time::NEVER).since(now).min(Duration::from_secs(3600));
        // The device reads its sockets itself; tokio only has to look again the next time.
        if let Ok(ready) = tokio::time::timeout(limit, self.fd.readable()).await {
            ready?.clear_ready();
        }
        Ok(())
    }
}

/// Sends each connection back what it says, until it has said all.
async fn serve(listener: TcpListener) -> Result<()> {
    let (mut socket, _) = listener.accept().await?;
    let mut buf = [0; 512];
    loop {
        match socket.read(&mut buf).await? {
            0 => return Ok(()),
            n => socket.write_all(&buf[..n]).await?,
        }
    }
}

/// Has numbers echoed, one after another.
async fn call(address: SocketAddr) -> Result<()> {
    let mut socket = TcpStream::connect(address).await?;
    for i in 0..ROUNDS {
        socket.write_all(&i.to_le_bytes()).await?;
        let mut echo = [0; 4];
        socket.read_exact(&mut echo).await?;
        if i32::from_le_bytes(echo) != i {
            return Err(format!("the echo of {i} is {echo:?}").into());
        }
    }
    Ok(())
}

/// Ping-pong between the ranks.
async fn messages(mpi: &mut Loop) -> Result<()> {
    let (me, peer, world) = (mpi.dev.rank() as i32, 1 - mpi.dev.rank() as i32, mpi.dev.world());
    for i in 0..ROUNDS {
        let word = i.to_le_bytes().to_vec();
        if i % 2 == me {
            let send = mpi.dev.isend(word, peer, i, world)?;
            mpi.wait(send).await?;
        } else {
            let receive = mpi.dev.irecv(vec![0; 4], peer, i, world)?;
            let done = mpi.wait(receive).await?;
            if done.buffer != word {
                return Err(format!("message {i} is {:?}", done.buffer).into());
            }
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut dev = Device::init()?;
    if dev.size() != 2 {
        return Err(format!("this needs a job of 2 ranks, not {}: nmrun -n 2 ...", dev.size()).into());
    }
    let (rank, world) = (dev.rank(), dev.world());
    // Rank 0 tells rank 1 the port of its server.
    let mut port = [0; 2];
    if rank == 0 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        port = listener.local_addr()?.port().to_le_bytes();
        dev.send(&port, 1, 0, world)?;
        let mut mpi = Loop::new(dev)?;
        tokio::try_join!(serve(listener), messages(&mut mpi))?;
        leave(mpi, rank)
    } else {
        dev.recv(&mut port, 0, 0, world)?;
        let address = (Ipv4Addr::LOCALHOST, u16::from_le_bytes(port)).into();
        let mut mpi = Loop::new(dev)?;
        tokio::try_join!(call(address), messages(&mut mpi))?;
        leave(mpi, rank)
    }
}

fn leave(mpi: Loop, rank: u32) -> Result<()> {
    mpi.dev.finalize()?;
    println!("rank {rank}: tokio ok");
    Ok(())
}
