//! The floor beside the netmod `verbs`: a queue pair on the same port, driven directly.

use ch3_shim::{Comm, Device};
use hca::Hca;
use hca_ibv::IbvHca;
use netmod_verbs::choose::{PortChoice, chosen};
use netmod_verbs::{OpenError, Setup, survey};

use super::direct::{Endpoint, Raw, Remote};
use super::{TAG, spins};
use crate::error::{During, Failure, Result};
use crate::sys::{QUEUE_ADDRESS_LEN, Queue};

/// The queue pair of rank 0 or 1.
pub(crate) type RawVerbs = Raw<Queue<IbvHca>>;

/// Returns the port that the netmod prefers.
///
/// # Errors
/// Why there is none.
pub(crate) fn first_port(setup: &Setup<IbvHca>) -> std::result::Result<PortChoice, OpenError> {
    let (all, mut reasons) = survey(setup)?;
    reasons.extend(all.iter().filter_map(|p| Some(format!("{}: {}", p.name(), p.gid.as_ref().err()?))));
    chosen(&all, &setup.cfg).into_iter().next().ok_or(OpenError::NoPort { reasons })
}

impl RawVerbs {
    /// Connects ranks 0 and 1, which both call this. Returns the name of the port, too. `crowded`:
    /// ranks share cores.
    pub(crate) fn connect(dev: &mut Device, comm: Comm, crowded: bool) -> Result<(RawVerbs, String)> {
        let setup = Setup::here(&dev.config().verbs);
        let port = first_port(&setup).during("choose a port of verbs for the floor")?;
        let gid = port.gid.clone().during("choose a GID for the floor")?.0;
        let title = format!("{} ({})", port.name(), gid.gid);
        let hca = setup.source.open(&port.device).during(format!("open {} for the floor", port.device))?;
        let lead = dev.rank() == 0;
        // Packet sequence numbers need not be secret: the peer is of the same job, and the queue
        // pair lives only for this measurement.
        let psn = std::process::id();
        let mut queue =
            Queue::open(hca, port.port, gid, psn).during(format!("open {title} for the floor"))?;
        let mine = queue.address().during("describe the floor's queue pair")?;
        let mut theirs = [0; QUEUE_ADDRESS_LEN];
        if lead {
            dev.send(&mine, 1, TAG, comm)?;
            dev.recv(&mut theirs, 1, TAG, comm)?;
        } else {
            dev.recv(&mut theirs, 0, TAG, comm)?;
            dev.send(&mine, 0, TAG, comm)?;
        }
        queue.connect(&theirs).during("connect the floor's queue pairs")?;
        // Nothing may be sent before the other side is connected.
        let mut done = [0];
        if lead {
            dev.send(&[1], 1, TAG, comm)?;
            dev.recv(&mut done, 1, TAG, comm)?;
        } else {
            dev.recv(&mut done, 0, TAG, comm)?;
            dev.send(&[1], 0, TAG, comm)?;
        }
        if done != [1] {
            return Err(Failure::new("the other process has not connected the floor's queue pair"));
        }
        Ok((Raw::new(queue, lead, spins(crowded)), title))
    }
}

impl<H: Hca> Endpoint for Queue<H> {
    const LIBRARY: &'static str = "verbs";

    fn lacks_rma(&self) -> Option<String> {
        None
    }

    #[inline]
    fn depth(&self) -> usize {
        Queue::depth(self)
    }

    #[inline]
    fn received(&self) -> u64 {
        Queue::received(self)
    }

    #[inline]
    fn is_sent(&self) -> bool {
        Queue::is_sent(self)
    }

    fn buffers(&mut self) -> std::result::Result<(&mut [u8], &mut [u8]), String> {
        Queue::buffers(self)
    }

    fn reserve(&mut self, bytes: usize) -> std::result::Result<(), String> {
        Queue::reserve(self, bytes)
    }

    fn exposed(&mut self) -> Option<[Remote; 2]> {
        Queue::exposed(self)
    }

    #[inline]
    fn post(&mut self, len: usize) -> std::result::Result<(), String> {
        Queue::post(self, len)
    }

    #[inline]
    fn send(&mut self, len: usize) -> std::result::Result<bool, String> {
        Queue::send(self, len)
    }

    #[inline]
    fn read(&mut self, len: usize, from: Remote) -> std::result::Result<bool, String> {
        Queue::read(self, len, from)
    }

    #[inline]
    fn write(&mut self, len: usize, to: Remote) -> std::result::Result<bool, String> {
        Queue::write(self, len, to)
    }

    #[inline]
    fn poll(&mut self) -> std::result::Result<bool, String> {
        Queue::poll(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use netmod_core::Time;
    use netmod_sim_hca::{DeviceSettings, Fabric, Leaks, Settings, SimHca};

    use super::*;
    use crate::floor::Direct;

    fn queue(fabric: &Fabric, device: DeviceSettings) -> Queue<SimHca> {
        let hca = fabric.open(fabric.device(device)).unwrap();
        let gid = hca.gids(1).unwrap()[0];
        Queue::open(hca, 1, gid, 0xffff_ffff).unwrap()
    }

    /// All transfer methods deliver correct data, with full-featured and with minimal devices.
    #[test]
    fn queue_pairs_move_what_is_measured() {
        for (max_inline, depth, layer) in
            [(220, 256, hca::LinkLayer::InfiniBand), (0, 4, hca::LinkLayer::Ethernet)]
        {
            let (delay_min, delay_max) = (Duration::ZERO, Duration::ZERO);
            let fabric = Fabric::new(Settings { delay_min, delay_max, ..Settings::default() });
            let mut device = DeviceSettings::new("sim0");
            (device.max_inline, device.attr.max_qp_wr, device.link_layer) = (max_inline, depth, layer);
            // Both have connected before the first message.
            let connected = std::sync::Barrier::new(2);
            let ((to_a, for_a), (to_b, for_b)) = (channel(), channel());
            // A sender that finds no receive retries after a while, so time must pass.
            let (over, since) = (AtomicBool::new(false), Instant::now());
            std::thread::scope(|s| {
                s.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        fabric.advance(Time::ZERO + since.elapsed());
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                let both = [(true, to_b, for_a), (false, to_a, for_b)].map(|(lead, tell, hear)| {
                    let (fabric, device, connected) = (&fabric, device.clone(), &connected);
                    s.spawn(move || {
                        let mut queue = queue(fabric, device);
                        tell.send(queue.address().unwrap()).unwrap();
                        queue.connect(&hear.recv().unwrap()).unwrap();
                        connected.wait();
                        let mut raw = Raw::new(queue, lead, 10);
                        for bytes in [1, 8, 221, 20_000] {
                            raw.ping_pong(bytes, 50).unwrap();
                            raw.messages(bytes, 16, 100).unwrap();
                            raw.both_ways(bytes, 16, 100).unwrap();
                            raw.one_sided(Direct::Read, bytes, 30).unwrap();
                            raw.one_sided(Direct::Write, bytes, 30).unwrap();
                        }
                        // The last message may still be in transit.
                        connected.wait();
                    })
                });
                let ended = both.map(|side| side.join().is_ok());
                over.store(true, Ordering::Relaxed);
                assert_eq!(ended, [true, true]);
            });
            assert_eq!(fabric.violations(), Vec::<String>::new());
            assert_eq!(fabric.leaks(), Leaks::default());
        }
    }
}
