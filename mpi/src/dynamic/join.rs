//! Two processes that have a socket between them.

use std::io::{self, Read, Write};

use super::meet::{Plan, Way};
use super::ports;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Info};
use crate::instance::Mpi;

/// The first bytes of each side, before its number.
const MAGIC: [u8; 8] = *b"NMJOIN1\n";
/// Longest name of a port in bytes.
const MOST: usize = 64 << 10;

fn failed(e: &io::Error) -> Box<MpiError> {
    let text = format!(
        "the socket: {e}; both sides call MPI_Comm_join on a connected stream socket that nobody reads"
    );
    MpiError::new(Class::OTHER, text)
}

/// Tells the other side a number of this one. Returns true if this side opens the port.
fn decide(socket: &mut (impl Read + Write)) -> io::Result<bool> {
    let mut own = [0; 16];
    getrandom::fill(&mut own).map_err(|e| io::Error::other(e.to_string()))?;
    socket.write_all(&MAGIC)?;
    socket.write_all(&own)?;
    let (mut magic, mut other) = ([0; MAGIC.len()], [0; 16]);
    socket.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the other side says something else"));
    }
    socket.read_exact(&mut other)?;
    Ok(own < other)
}

fn tell(socket: &mut impl Write, name: &str) -> io::Result<()> {
    socket.write_all(&(name.len() as u32).to_le_bytes())?;
    socket.write_all(name.as_bytes())
}

fn hear(socket: &mut impl Read) -> io::Result<String> {
    let mut len = [0; 4];
    socket.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MOST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the name of a port is too long"));
    }
    let mut name = vec![0; len];
    socket.read_exact(&mut name)?;
    String::from_utf8(name).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

impl Mpi {
    /// Makes an intercommunicator of this process and the one at the other end of a socket
    /// (`MPI_Comm_join`).
    ///
    /// # Errors
    /// A socket that is none, or at whose other end nobody calls this; as [`Mpi::comm_connect`].
    pub fn comm_join(&self, socket: &mut (impl Read + Write)) -> Result<Comm> {
        let opens = decide(socket).map_err(|e| failed(&e))?;
        if !opens {
            let name = hear(socket).map_err(|e| failed(&e))?;
            return self.comm_connect(&name, Info::NULL, 0, Comm::SELF);
        }
        let name = self.open_port(Info::NULL)?;
        let told = tell(socket, &name).map_err(|e| failed(&e));
        let met = told.and_then(|()| {
            self.meet_over(Comm::SELF, 0, || Ok(Plan { way: Way::Accept(ports::parse(&name)?), limit: None }))
        });
        let closed = self.close_port(&name);
        let comm = met?;
        closed.map(|()| comm)
    }
}
