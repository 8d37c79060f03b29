//! Ports, at which groups connect and accept.

use std::time::Duration;

use ch3_shim::PortName;

use super::meet::{Plan, Way};
use crate::consts::MAX_PORT_NAME;
use crate::error::{Class, MpiError, Result};
use crate::handle::{Comm, Info};
use crate::instance::Mpi;

/// Key of an info with the seconds after which a call gives up.
const TIMEOUT: &str = "timeout";
/// Longest wait of who connects, unless the info says otherwise: the job may not have come to
/// accept yet.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// Reads the name of a port.
///
/// # Errors
/// A text that is none.
pub(super) fn parse(name: &str) -> Result<PortName> {
    name.parse().map_err(|e: ch3_shim::PortNameError| MpiError::new(Class::PORT, format!("port_name: {e}")))
}

impl Mpi {
    /// Opens a port at which other groups can connect to this process, and returns its name
    /// (`MPI_Open_port`). Whoever knows the name can.
    ///
    /// # Errors
    /// A bad info; no netmod that other jobs reach; a name that is too long.
    pub fn open_port(&self, info: Info) -> Result<String> {
        self.with(|s| {
            s.objects.anytime.infos().pairs(info)?;
            let port = s.dev.open_port()?;
            match s.dev.short_name(&port, MAX_PORT_NAME - 1) {
                Ok(short) => Ok(short.to_string()),
                Err(e) => {
                    s.dev.close_port(&port)?;
                    Err(e.into())
                }
            }
        })
    }

    /// Closes a port (`MPI_Close_port`). Groups that were accepted stay connected.
    ///
    /// # Errors
    /// A text that is no name; a port that is not open in this process.
    pub fn close_port(&self, port_name: &str) -> Result<()> {
        let port = parse(port_name)?;
        self.with(|s| s.dev.close_port(&port).map_err(|e| MpiError::new(Class::PORT, e.to_string())))
    }

    /// Accepts the group that connects to a port, and makes an intercommunicator with it
    /// (`MPI_Comm_accept`). Name and info count at the root, which has opened the port. The info
    /// may limit the wait (`timeout`, in seconds).
    ///
    /// # Errors
    /// A bad argument; a port that is not open; a time that is over; a process that was lost.
    pub fn comm_accept(&self, port_name: &str, info: Info, root: i32, comm: Comm) -> Result<Comm> {
        self.meet_over(comm, root, || {
            let limit = self.time_limit(info)?;
            Ok(Plan { way: Way::Accept(parse(port_name)?), limit })
        })
    }

    /// Connects to the group that accepts at a port, and makes an intercommunicator with it
    /// (`MPI_Comm_connect`). Name and info count at the root. The info may limit the wait
    /// (`timeout`, in seconds), which otherwise ends after three minutes.
    ///
    /// # Errors
    /// A bad argument; a port that is not reached, or at which nobody accepts; a process that was
    /// lost.
    pub fn comm_connect(&self, port_name: &str, info: Info, root: i32, comm: Comm) -> Result<Comm> {
        self.meet_over(comm, root, || {
            let limit = Some(self.time_limit(info)?.unwrap_or(PATIENCE));
            Ok(Plan { way: Way::Connect(parse(port_name)?), limit })
        })
    }

    /// Returns the limit in an info, if it has one.
    fn time_limit(&self, info: Info) -> Result<Option<Duration>> {
        if info.is_null() {
            return Ok(None);
        }
        let Some(text) = self.anytime().info_get(info, TIMEOUT)? else { return Ok(None) };
        match text.trim().parse() {
            Ok(seconds) => Ok(Some(Duration::from_secs(seconds))),
            Err(_) => {
                let text = format!("{TIMEOUT} is {text:?} in the info; it is a number of seconds");
                Err(MpiError::new(Class::INFO_VALUE, text))
            }
        }
    }
}
