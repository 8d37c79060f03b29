//! Names under which ports are published, as the launcher keeps them.

use crate::error::{Class, MpiError, Result};
use crate::handle::Info;
use crate::instance::Mpi;

fn checked(service: &str) -> Result<()> {
    if service.is_empty() {
        return Err(MpiError::new(Class::SERVICE, "service_name is empty"));
    }
    Ok(())
}

impl Mpi {
    /// Publishes a port, or any text, under the name of a service, for all jobs of the launcher
    /// (`MPI_Publish_name`).
    ///
    /// # Errors
    /// A bad argument; a name that is published already; a launcher that does not serve it.
    pub fn publish_name(&self, service: &str, info: Info, port_name: &str) -> Result<()> {
        checked(service)?;
        if port_name.is_empty() {
            return Err(MpiError::new(Class::PORT, "port_name is empty"));
        }
        self.with(|s| {
            s.objects.anytime.infos().pairs(info)?;
            let done = s.dev.publish_name(service, port_name);
            done.map_err(|e| MpiError::new(Class::SERVICE, format!("service \"{service}\": {e}")))
        })
    }

    /// Returns the port that is published under the name of a service (`MPI_Lookup_name`).
    ///
    /// # Errors
    /// A bad argument; a name that is not published; a launcher that does not serve it.
    pub fn lookup_name(&self, service: &str, info: Info) -> Result<String> {
        checked(service)?;
        self.with(|s| {
            s.objects.anytime.infos().pairs(info)?;
            let found = s.dev.lookup_name(service).map_err(|e| MpiError::new(Class::NAME, e.to_string()))?;
            found.ok_or_else(|| {
                let text = format!(
                    "no port is published as \"{service}\" by jobs of this launcher; is its server started, by the same \
                     mpiexec?"
                );
                MpiError::new(Class::NAME, text)
            })
        })
    }

    /// Takes back the name of a service (`MPI_Unpublish_name`).
    ///
    /// # Errors
    /// A bad argument; a name that is not published; a launcher that does not serve it.
    pub fn unpublish_name(&self, service: &str, info: Info, _port_name: &str) -> Result<()> {
        checked(service)?;
        self.with(|s| {
            s.objects.anytime.infos().pairs(info)?;
            let done = s.dev.unpublish_name(service);
            done.map_err(|e| MpiError::new(Class::SERVICE, format!("service \"{service}\": {e}")))
        })
    }
}
