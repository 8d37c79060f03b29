//! Two processes connected by a VC over the fake provider.

use std::time::Duration;

use netmod_core::{
    Card, CardWriter, Core, DataAvail, Engine, Event, GroupId, Header, Io, Module, Netmod, PacketFault,
    PeerName, PollOrder, Pollers, ReqId, RxBytes, SendBuf, Time, Upper, Vc, VcError, VcId, VcLife,
};
use netmod_fake_fabric::{Control, Settings, World, library_path};
use netmod_ofi::OfiConfig;
use netmod_ofi::{OfiNetmod, Setup};

/// A layer that takes headers; tests send nothing else.
#[derive(Default)]
pub struct Layer {
    pub got: u32,
    pub terminated: bool,
    pub downs: Vec<String>,
    /// Ends of one-sided operations, in their order.
    pub ended: Vec<(u64, Result<(), VcError>)>,
}

// SAFETY: requests are finished when their data has moved, or the netmod has handed them back.
#[allow(unsafe_code)]
unsafe impl<N: Netmod> Upper<N> for Layer {
    fn packet(
        &mut self,
        _: &mut Io<'_, N>,
        _: VcId,
        _: &Header,
        _: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        self.got += 1;
        Ok(0)
    }

    fn on_data_avail(&mut self, _: &mut Io<'_, N>, _: VcId, _: ReqId) -> DataAvail {
        DataAvail::Complete
    }

    fn on_event(&mut self, _: &mut Io<'_, N>, event: Event) {
        match event {
            Event::Terminated { .. } => self.terminated = true,
            Event::RmaDone { op, result, .. } => self.ended.push((op, result)),
            Event::Down { error, .. } => self.downs.push(error.to_string()),
            _ => {}
        }
    }
}

pub struct Rank {
    pub engine: Engine<OfiNetmod>,
    pub layer: Layer,
    pub vc: VcId,
}

/// Two processes connected by a VC.
pub struct Pair {
    pub world: World,
    pub ranks: Vec<Rank>,
    pub now: Time,
}

fn name(rank: usize) -> PeerName {
    PeerName { group: GroupId([7; 16]), rank: rank as u32 }
}

impl Pair {
    /// Makes a pair over a provider with these settings. `tune` may change the configuration.
    pub fn new(settings: Settings, tune: impl FnOnce(&mut OfiConfig)) -> Pair {
        let world = World::new(&Control::load(&library_path()).1, settings);
        let mut cfg = netmod_ofi::OfiConfig {
            library: library_path().display().to_string(),
            ..netmod_ofi::OfiConfig::default()
        };
        (cfg.provider, cfg.domain) = ("fake".into(), world.name().into());
        tune(&mut cfg);
        let mut netmods: Vec<OfiNetmod> = (0..2)
            .map(|me| {
                let mut netmod = OfiNetmod::new(&Setup::new(&cfg), name(me), 2);
                netmod.join_job([9; 32], Pollers::UNKNOWN).expect("a job key is taken");
                netmod
            })
            .collect();
        let card = |netmod: &OfiNetmod| {
            let mut card = CardWriter::new();
            netmod.business_card(&mut card).expect("a section of the card");
            Card::parse(&card.finish()).expect("a card")
        };
        let cards: Vec<Card> = netmods.iter().map(card).collect();
        let ranks = netmods.drain(..).enumerate().map(|(me, netmod)| {
            let mut engine = Engine::new(netmod, Core::new(16));
            let peer = name(1 - me);
            let vc = engine.core.add_vc(Vc::new(peer, 0));
            engine.netmod.vc_init(&mut engine.core, vc, peer, Some(&cards[1 - me])).expect("vc_init");
            Rank { engine, layer: Layer::default(), vc }
        });
        Pair { world, ranks: ranks.collect(), now: Time::ZERO }
    }

    /// Sends a header followed by these bytes.
    pub fn send(&mut self, rank: usize, data: &'static [u8]) {
        self.try_send(rank, data).expect("a VC that is up");
    }

    /// Sends a header followed by these bytes, if the VC is up.
    pub fn try_send(&mut self, rank: usize, data: &'static [u8]) -> Result<(), VcError> {
        let Rank { engine, vc, .. } = &mut self.ranks[rank];
        let data = SendBuf::from_static(data);
        engine.netmod.i_start_contig_msg(&mut engine.core, *vc, &[1; 32], data).map(|_| ())
    }

    /// Lets simulated time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + Duration::from_micros(500);
            for Rank { engine, layer, .. } in &mut self.ranks {
                engine.progress(layer, PollOrder::InFirst, self.now).expect("progress");
            }
        }
    }
}
