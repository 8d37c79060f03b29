//! The floor beside the netmod `ofi`: the same provider of libfabric, driven directly.

use std::path::Path;

use ch3_shim::{Comm, Device};
use libfabric_sys::Library;
use netmod_ofi::address::show;
use netmod_ofi::choose::{has_thread, survey};

use super::direct::{Endpoint, Raw, Remote};
use super::{TAG, spins};
use crate::error::{During, Failure, Result};
use crate::sys::Fabric;

/// Maximum length of an address with its length prefix.
const GREETING: usize = 1026;

/// The libfabric endpoint of rank 0 or 1.
pub(crate) type RawFabric = Raw<Fabric>;

impl RawFabric {
    /// Connects ranks 0 and 1, which both call this. Returns the name of the domain, too.
    /// `crowded`: ranks share cores; a provider's thread also needs a core.
    pub(crate) fn connect(dev: &mut Device, comm: Comm, crowded: bool) -> Result<(RawFabric, String)> {
        let cfg = &dev.config().ofi;
        let path = (!cfg.library.is_empty()).then(|| Path::new(&cfg.library));
        let library = Library::load(path).during("load libfabric for the floor")?;
        let chosen = survey(&library, cfg).into_chosen().during("choose a provider for the floor")?.0;
        let offer = chosen.into_iter().next().ok_or_else(|| Failure::new("no provider was chosen"))?;
        let at = show(offer.format, &offer.address);
        let title = format!("{} on {} ({at})", offer.provider, offer.domain);
        // A thread that yields to the provider's thread gets the processor back at once and keeps
        // it for milliseconds.
        let threads = has_thread(&offer.provider);
        let mut fabric =
            Fabric::open(library, offer, threads).during(format!("open {title} for the floor"))?;

        let mine = fabric.address().during("find the address of the floor's endpoint")?;
        let mut greeting = [0; GREETING];
        let len = mine.len().min(GREETING - 2);
        greeting[..2].copy_from_slice(&(len as u16).to_le_bytes());
        greeting[2..2 + len].copy_from_slice(&mine[..len]);
        let mut answer = [0; GREETING];
        let lead = dev.rank() == 0;
        if lead {
            dev.send(&greeting, 1, TAG, comm)?;
            dev.recv(&mut answer, 1, TAG, comm)?;
        } else {
            dev.recv(&mut answer, 0, TAG, comm)?;
            dev.send(&greeting, 0, TAG, comm)?;
        }
        let len = usize::from(u16::from_le_bytes([answer[0], answer[1]])).min(GREETING - 2);
        fabric.set_peer(&answer[2..2 + len]).during("make the peer's address known to libfabric")?;
        Ok((Raw::new(fabric, lead, spins(crowded || threads)), title))
    }

    /// Returns the provider's name.
    pub(crate) fn provider(&self) -> &str {
        &self.endpoint().offer().provider
    }
}

impl Endpoint for Fabric {
    const LIBRARY: &'static str = "libfabric";

    fn lacks_rma(&self) -> Option<String> {
        let offer = self.offer();
        (!offer.has_rma()).then(|| format!("provider {} has no one-sided transfers", offer.provider))
    }

    #[inline]
    fn depth(&self) -> usize {
        Fabric::depth(self)
    }

    #[inline]
    fn received(&self) -> u64 {
        Fabric::received(self)
    }

    #[inline]
    fn is_sent(&self) -> bool {
        Fabric::is_sent(self)
    }

    fn buffers(&mut self) -> std::result::Result<(&mut [u8], &mut [u8]), String> {
        Fabric::buffers(self)
    }

    fn reserve(&mut self, bytes: usize) -> std::result::Result<(), String> {
        Fabric::reserve(self, bytes)
    }

    fn exposed(&mut self) -> Option<[Remote; 2]> {
        Fabric::exposed(self)
    }

    #[inline]
    fn post(&mut self, len: usize) -> std::result::Result<(), String> {
        Fabric::post(self, len)
    }

    #[inline]
    fn send(&mut self, len: usize) -> std::result::Result<bool, String> {
        Fabric::send(self, len)
    }

    #[inline]
    fn read(&mut self, len: usize, from: Remote) -> std::result::Result<bool, String> {
        Fabric::read(self, len, from)
    }

    #[inline]
    fn write(&mut self, len: usize, to: Remote) -> std::result::Result<bool, String> {
        Fabric::write(self, len, to)
    }

    #[inline]
    fn poll(&mut self) -> std::result::Result<bool, String> {
        Fabric::poll(self)
    }

    fn rest(&self) {
        Fabric::rest(self);
    }
}
