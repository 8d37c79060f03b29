//! A registered netmod passes the conformance suite, and takes part in what built-in ones take part
//! in.

use std::sync::Arc;

use ch3_shim::Config;
use ch3_shim::netset::{AnyNetmod, NetSet};
use ch3_shim::{Bootstrap, Builder, Device, NetmodSetup};
use netmod_core::config::{Kind, Origin};
use netmod_core::{DeviceError, Module, Pollers};
use netmod_tests::board::{Board, run_devices};
use netmod_tests::factory::{Capabilities, Job, NetmodFactory, bare_name};
use netmod_third_party::{NAME, Room, Third, ThirdConfig, ThirdReport, register};

/// Devices over the registered netmod.
#[derive(Clone, Debug)]
struct Registered;

impl NetmodFactory for Registered {
    fn name(&self) -> String {
        "a registered netmod".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { max_bytes: 64 << 20, many: 2000 }
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods = vec![NAME.into()];
        cfg
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        Arc::new(InRoom(Room::new(ranks, 256 << 10)))
    }
}

/// A job whose ranks share a room.
struct InRoom(Room);

impl Job for InRoom {
    fn device(&self, boot: Box<dyn Bootstrap>, cfg: Config) -> ch3_shim::Result<Device> {
        register(Builder::new(cfg, boot), &self.0)?.build()
    }

    fn netmod(&self, rank: u32) -> NetSet {
        let mut netmod = Third::new(&self.0, bare_name(rank));
        netmod.join_job([9; 32], Pollers::UNKNOWN).expect("a job key is taken");
        NetSet::new(vec![AnyNetmod::Other(Box::new(netmod))])
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

netmod_tests::conformance!(registered, Registered);

/// The label that the child process of a test is given.
const LABELLED: &str = "NETMOD_THIRD_LABEL";

/// Registered devices of which `NETMOD` allows TCP, too.
#[derive(Clone, Debug)]
struct Beside(&'static [&'static str], Room);

impl NetmodFactory for Beside {
    fn name(&self) -> String {
        format!("NETMOD={}", self.0.join(","))
    }

    fn capabilities(&self) -> Capabilities {
        Registered.capabilities()
    }

    fn config(&self) -> Config {
        let mut cfg = Config::default();
        cfg.netmods = self.0.iter().map(|n| (*n).to_owned()).collect();
        cfg.tcp.interface = "127.0.0.1".into();
        cfg
    }

    fn job(&self, _ranks: u32) -> Arc<dyn Job> {
        Arc::new(InRoom(self.1.clone()))
    }
}

/// Sends a message to the other rank of two, and returns the name of the netmod that carried it.
fn carrier(mut dev: Device) -> String {
    let world = dev.world();
    let peer = 1 - dev.rank();
    let sent = [dev.rank() as u8; 8];
    let mut got = [0; 8];
    if dev.rank() == 0 {
        dev.send(&sent, peer as i32, 1, world).expect("sends");
        dev.recv(&mut got, peer as i32, 1, world).expect("receives");
    } else {
        dev.recv(&mut got, peer as i32, 1, world).expect("receives");
        dev.send(&sent, peer as i32, 1, world).expect("sends");
    }
    assert_eq!(got, [peer as u8; 8]);
    let report = dev.report();
    let route = report.iter().find(|r| r.rank == peer).expect("a VC with the peer").netmod.clone();
    dev.finalize().expect("finalizes");
    route
}

#[test]
fn every_rank_gets_the_same_job_key() {
    let room = Room::new(2, 1 << 16);
    run_devices(&Beside(&[NAME], room.clone()), 2, |_| {}, |dev| dev.finalize().expect("finalizes"));
    let [(one, first), (two, second)] = room.joined()[..] else { panic!("{:?}", room.joined()) };
    assert!(one == two && one != [0; 32], "the ranks got other keys, or none");
    assert!(first == second && first.processes == 2 && first != Pollers::UNKNOWN, "{first:?} and {second:?}");
}

/// The device asks a netmod whether it shares memory, and knows none by its type: large messages go
/// through rings then.
#[test]
fn one_that_shares_memory_is_taken_for_near() {
    for near in [false, true] {
        let room = Room::new(2, 1 << 16);
        let room = if near { room.with_memory() } else { room };
        let ring = |mut dev: Device| {
            let (peer, world) = (1 - dev.rank() as i32, dev.world());
            let mut data = vec![dev.rank() as u8; 1 << 20];
            if dev.rank() == 0 {
                dev.send(&data, peer, 1, world).expect("sends");
            } else {
                dev.recv(&mut data, peer, 1, world).expect("receives");
                assert!(data.iter().all(|b| *b == 0));
            }
            let stats = dev.stats();
            dev.finalize().expect("finalizes");
            stats.through_rings
        };
        let rings = run_devices(&Beside(&[NAME], room), 2, |cfg| cfg.eager_max = 0, ring);
        assert_eq!(rings, if near { [1, 1] } else { [0, 0] }, "near: {near}");
    }
}

/// The order in `NETMOD` counts for a registered netmod as for any other.
#[test]
fn the_order_of_preference_decides() {
    for (order, chosen) in [(&[NAME, "tcp"][..], NAME), (&["tcp", NAME], "tcp")] {
        let routes = run_devices(&Beside(order, Room::new(2, 1 << 16)), 2, |_| {}, carrier);
        for route in routes {
            assert!(route.starts_with(&format!("{chosen}: ")), "NETMOD={}: {route}", order.join(","));
        }
    }
}

/// Without a value of `NETMOD` a registered netmod is preferred.
#[test]
fn it_is_preferred_by_default() {
    let mut board = Board::new(1);
    let boot = Box::new(board.place(0));
    let mut dev = register(Builder::new(Config::default(), boot), &Room::new(1, 1 << 16))
        .and_then(Builder::build)
        .expect("a device");
    assert_eq!(dev.status().netmods.first().map(String::as_str), Some(NAME));
    dev.finalize().expect("finalizes");
}

/// Its setting comes from the environment: of a child process, since this one has many threads.
#[test]
fn a_setting_of_its_own_reaches_it() {
    if std::env::var_os(LABELLED).is_none() {
        let test = "a_setting_of_its_own_reaches_it";
        let exe = std::env::current_exe().expect("this program");
        let done = std::process::Command::new(exe).args(["--exact", test]).env(LABELLED, "blue").output();
        let done = done.expect("a child");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        return;
    }
    let builder = Builder::from_env().expect("a job of one");
    let mut dev = register(builder, &Room::new(1, 1 << 16)).and_then(Builder::build).expect("a device");
    let opened = dev.status().opened;
    assert!(opened[0].starts_with("blue: "), "{opened:?}");
    assert_eq!(dev.netmod_report(), Some(ThirdReport { label: "blue".into() }));
    assert_eq!(dev.netmod_report::<u64>(), None, "no netmod has such a report");
    dev.finalize().expect("finalizes");
}

/// The environment as a program sees it, with one value too long and one name misspelt.
#[test]
fn its_table_takes_part_in_the_configuration() {
    let cfg = |name: &str, value: &str| {
        Config::from_lookup([(name.to_owned(), value.to_owned())]).expect("nobody knows the name yet")
    };
    let add = |cfg| {
        let mut board = Board::new(1);
        register(Builder::new(cfg, Box::new(board.place(0))), &Room::new(1, 1 << 16))
    };
    let mut builder = add(cfg("NETMOD_THIRD_LABEL", "blue")).expect("a label");
    assert_eq!(builder.config().registered(), Some(&ThirdConfig { label: "blue".into() }));
    assert_eq!(builder.config().warnings(), []);
    let entry = builder.config().entries().last().expect("a setting");
    assert_eq!((entry.name, entry.origin), ("NETMOD_THIRD_LABEL", Origin::Env));
    builder.config().set("NETMOD_THIRD_LABEL", "red").expect("a label");
    let dev = builder.build().expect("a device");
    assert_eq!(dev.netmod_report(), Some(ThirdReport { label: "red".into() }));
    dev.finalize().expect("finalizes");

    let mut misspelt = add(cfg("NETMOD_THIRD_LABLE", "blue")).expect("a warning only");
    let warning = misspelt.config().warnings()[0].to_string();
    assert!(warning.ends_with("did you mean NETMOD_THIRD_LABEL?"), "{warning}");
    let refused = add(cfg("NETMOD_THIRD_LABEL", &"x".repeat(65))).expect_err("a long label").to_string();
    assert!(refused.contains("text of at most 64 bytes"), "{refused}");
}

#[test]
fn a_table_with_variables_of_others_is_refused() {
    let mut board = Board::new(2);
    let builder = Builder::new(Config::default(), Box::new(board.place(0)));
    let open = |_: &NetmodSetup, _: &ThirdConfig| Err(DeviceError::new(NAME, "never opened"));
    let refused = builder.register_with("fourth", open).expect_err("a foreign prefix").to_string();
    assert!(refused.contains("begin with NETMOD_FOURTH_, and NETMOD_THIRD_LABEL does not"), "{refused}");
    netmod_core::settings! {
        /// A table of a netmod `eager`.
        Eager: "Eager" {
            max: usize = 1, "NETMOD_EAGER_MAX", Kind::Count { min: 1, max: 2 }, "a name that is taken";
        }
        check: |_| Ok(())
    }
    let builder = Builder::new(Config::default(), Box::new(board.place(1)));
    let open = |_: &NetmodSetup, _: &Eager| Err(DeviceError::new("eager", "never opened"));
    let refused = builder.register_with("eager", open).expect_err("a taken name").to_string();
    assert!(refused.contains("two tables of settings declare NETMOD_EAGER_MAX"), "{refused}");
}

#[test]
fn names_that_are_taken_or_unfit_are_refused() {
    let room = Room::new(1, 1 << 16);
    let with = |name: &'static str| {
        let mut board = Board::new(1);
        let builder = Builder::new(Config::default(), Box::new(board.place(0)));
        builder
            .register(name, |_| Err(DeviceError::new(NAME, "never opened")))
            .expect_err("a name like this")
            .to_string()
    };
    assert!(with("tcp").contains("there is one of that name"));
    assert!(with("My Netmod").contains("lower-case letters"));
    let mut board = Board::new(1);
    let once = register(Builder::new(Config::default(), Box::new(board.place(0))), &room).expect("once");
    assert!(register(once, &room).expect_err("twice").to_string().contains("there is one of that name"));
}

#[test]
fn one_that_cannot_open_says_why() {
    // A job of one needs no netmod.
    let mut board = Board::new(2);
    let mut cfg = Config::default();
    cfg.netmods = vec![NAME.into()];
    let builder = Builder::new(cfg, Box::new(board.place(0)));
    let error = builder
        .register(NAME, |_| Err(DeviceError::new(NAME, "no such hardware")))
        .and_then(Builder::build)
        .expect_err("nothing opens");
    assert!(error.to_string().contains("no such hardware"), "{error}");
}

/// Acts like a netmod that has opened nothing, which its card says: peers do without it.
#[test]
fn one_that_has_opened_nothing_says_why() {
    let mut board = Board::new(2);
    let mut cfg = Config::default();
    cfg.netmods = vec![NAME.into()];
    let room = Room::new(2, 1 << 16).broken("its cable is not plugged in");
    let error = register(Builder::new(cfg, Box::new(board.place(0))), &room)
        .and_then(Builder::build)
        .expect_err("nothing opens");
    assert!(error.to_string().contains("its cable is not plugged in"), "{error}");
    let routes = run_devices(&Beside(&[NAME, "tcp"], room), 2, |_| {}, carrier);
    assert!(routes.iter().all(|route| route.starts_with("tcp: ")), "{routes:?}");
}
