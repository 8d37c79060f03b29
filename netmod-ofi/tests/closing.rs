//! What is lost while a connection ends in order is told to somebody.

use std::time::Duration;

use fake_fabric::{Control, Operation, Settings, World, library_path};
use netmod_core::{
    Card, CardWriter, Core, DataAvail, Engine, Event, GroupId, Header, Io, Netmod, PacketFault, PeerName,
    PollOrder, ReqId, RxBytes, SendBuf, Time, Upper, Vc, VcId,
};
use netmod_frames::wire::{FRAME_HEADER, SHORT_BODY};
use netmod_hello::JobKey;
use netmod_ofi::{OfiNetmod, Setup};

/// Takes headers, which are all that is sent here.
#[derive(Default)]
struct Layer {
    got: u32,
    terminated: bool,
    downs: Vec<String>,
}

impl<N: Netmod> Upper<N> for Layer {
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
            Event::Down { error, .. } => self.downs.push(error.to_string()),
            _ => {}
        }
    }
}

struct Rank {
    engine: Engine<OfiNetmod>,
    layer: Layer,
    vc: VcId,
}

/// Two processes with a VC between them.
struct Pair {
    world: World,
    ranks: Vec<Rank>,
    now: Time,
}

fn name(rank: usize) -> PeerName {
    PeerName { group: GroupId([7; 16]), rank: rank as u32 }
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let settings = Settings { seed, inject_size: 64, ..Settings::default() };
        let world = World::new(&Control::load(&library_path()).1, settings);
        let mut cfg = netmod_core::Config::default().ofi;
        cfg.library = library_path().display().to_string();
        (cfg.provider, cfg.domain) = ("fake".into(), world.name().into());
        let mut netmods: Vec<OfiNetmod> = (0..2)
            .map(|me| {
                let mut netmod = OfiNetmod::new(&Setup::new(&cfg), name(me), 2);
                netmod.authenticate_with(JobKey([9; 32]));
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
            let vc = engine.core.vcs.insert(Vc::new(peer, 0));
            engine.netmod.vc_init(&mut engine.core, vc, peer, Some(&cards[1 - me])).expect("vc_init");
            Rank { engine, layer: Layer::default(), vc }
        });
        Pair { world, ranks: ranks.collect(), now: Time::ZERO }
    }

    /// Sends a header and nothing else.
    fn send(&mut self, rank: usize) {
        let Rank { engine, vc, .. } = &mut self.ranks[rank];
        let none = SendBuf::from_static(&[]);
        engine.netmod.i_start_contig_msg(&mut engine.core, *vc, &[1; 32], none).expect("a VC that is up");
    }

    fn terminate(&mut self, rank: usize) {
        let (now, Rank { engine, vc, .. }) = (self.now, &mut self.ranks[rank]);
        engine.netmod.vc_terminate(&mut engine.core, *vc, now);
    }

    /// Lets so much time pass.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + Duration::from_micros(500);
            for Rank { engine, layer, .. } in &mut self.ranks {
                engine.progress(layer, PollOrder::InFirst, self.now).expect("progress");
            }
        }
    }
}

/// Of what was injected nobody says whose it was, and FIN_ACK is what the peer would learn from that something is missing.
#[test]
fn a_message_that_is_lost_with_the_answer_to_fin_is_told() {
    let mut lost = 0;
    for seed in 0..64 {
        let mut pair = Pair::new(seed);
        pair.send(0);
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.ranks[1].layer.got, 1, "seed {seed}");
        pair.terminate(1);
        pair.world.fail_next(Operation::Send, 2);
        let before = pair.world.stats();
        pair.send(0);
        let after = pair.world.stats();
        assert_eq!((after.injects, after.failed), (before.injects + 1, before.failed + 1), "seed {seed}");
        assert!(after.bytes - before.bytes >= (FRAME_HEADER + SHORT_BODY) as u64);
        pair.run(Duration::from_secs(10));
        let [sender, receiver] = &pair.ranks[..] else { unreachable!("there are two") };
        let told = !sender.layer.downs.is_empty() || !receiver.layer.downs.is_empty();
        lost += u32::from(receiver.layer.got == 1);
        assert!(receiver.layer.got == 2 || told, "seed {seed}: the message is lost, and nobody is told");
        assert!(receiver.layer.terminated || !receiver.layer.downs.is_empty(), "seed {seed}: no answer");
        assert_eq!(pair.world.violations(), [""; 0]);
    }
    assert!((10..50).contains(&lost), "lost {lost} times");
}
