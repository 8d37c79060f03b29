use crate::config::OfiConfig;
use libfabric_sys::consts::{
    FI_ATOMIC, FI_MR_LOCAL, FI_MR_MMU_NOTIFY, FI_MSG, FI_MSG_PREFIX, FI_MULTI_RECV, FI_ORDER_SAS, FI_RMA,
    FI_SOCKADDR_IN, FI_SOCKADDR_IN6,
};
use libfabric_sys::version;
use netmod_matching::{Address, Host, Kind, Nic};

use super::*;
use crate::fi::info::{Facts, NicFacts};

const OLD: u32 = version(1, 17);

/// Makes a socket address of the system from an IP address.
fn socket_address(ip: &str) -> (u32, Box<[u8]>) {
    match ip.parse().expect("an IP address") {
        std::net::IpAddr::V4(v4) => {
            let mut out = (libc::AF_INET as u16).to_ne_bytes().to_vec();
            out.extend([0, 0]);
            out.extend(v4.octets());
            out.extend([0; 8]);
            (FI_SOCKADDR_IN, out.into())
        }
        std::net::IpAddr::V6(v6) => {
            let mut out = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
            out.extend([0; 6]);
            out.extend(v6.octets());
            out.extend([0; 4]);
            (FI_SOCKADDR_IN6, out.into())
        }
    }
}

/// Makes a usable offer.
fn offer(provider: &str, domain: &str, ip: &str) -> Facts {
    let (format, address) = if ip.is_empty() { (99, [1, 2, 3].into()) } else { socket_address(ip) };
    Facts {
        provider: provider.into(),
        domain: domain.into(),
        fabric: "a fabric".into(),
        format,
        address,
        caps: FI_MSG | FI_RMA | FI_MULTI_RECV,
        max_msg: usize::MAX,
        tx_order: FI_ORDER_SAS,
        rx_order: FI_ORDER_SAS,
        ..Facts::default()
    }
}

fn nic(name: &str, kind: Kind, ip: &str) -> Nic {
    let ip = ip.parse().expect("an IP address");
    Nic {
        name: name.into(),
        kind,
        addresses: vec![Address { ip, prefix: 24 }],
        up: true,
        carrier: true,
        ..Nic::default()
    }
}

fn config(provider: &str, domain: &str) -> OfiConfig {
    OfiConfig { provider: provider.into(), domain: domain.into(), ..OfiConfig::default() }
}

/// Returns the used providers and domains, best first, after checking the order of the decisions.
fn chosen(offers: &[Facts], host: &Host, library: u32, cfg: &OfiConfig) -> Vec<String> {
    let decisions = decide(&offers.iter().collect::<Vec<_>>(), host, library, cfg);
    assert_eq!(decisions.len(), offers.len());
    let mut order: Vec<usize> = (0..offers.len()).collect();
    order.sort_by_key(|i| decisions[*i].order);
    assert!(order.iter().enumerate().all(|(at, i)| decisions[*i].order == at), "each has its own position");
    let used = |i: &usize| matches!(decisions[*i].verdict, Verdict::Chosen(_));
    assert!(order.is_sorted_by_key(|i| !used(i)), "what is used comes first");
    order
        .iter()
        .filter(|i| used(i))
        .map(|i| format!("{} {}", offers[*i].provider, offers[*i].domain))
        .collect()
}

fn why_not(offers: &[Facts], host: &Host, cfg: &OfiConfig, i: usize) -> String {
    let decisions = decide(&offers.iter().collect::<Vec<_>>(), host, OLD, cfg);
    match &decisions[i].verdict {
        Verdict::Refused(why) => why.clone(),
        Verdict::Chosen(why) => panic!("{} is chosen: {why}", offers[i].provider),
    }
}

/// Returns the offers of 1.17 on a host with one interface.
fn of_1_17() -> Vec<Facts> {
    let mut out = Vec::new();
    for provider in ["tcp;ofi_rxm", "net", "net;ofi_rxm", "udp;ofi_rxd", "sockets"] {
        out.push(offer(provider, "eth0", "fe80::1"));
        out.push(offer(provider, "eth0", "192.0.2.2"));
        out.push(offer(provider, "lo", "127.0.0.1"));
    }
    out.push(offer("shm", "shm", ""));
    out
}

#[test]
fn one_provider_is_taken_by_one_address_of_each_domain() {
    let (all, host) = (of_1_17(), Host::default());
    assert_eq!(chosen(&all, &host, OLD, &OfiConfig::default()), ["net eth0"]);
    assert!(why_not(&all, &host, &OfiConfig::default(), 3).contains("192.0.2.2"));
    assert!(why_not(&all, &host, &OfiConfig::default(), 5).contains("loopback"));
    assert!(why_not(&all, &host, &OfiConfig::default(), 0).contains("net is better"));
    assert!(why_not(&all, &host, &OfiConfig::default(), 15).contains("score 490 against 100"));
    assert!(chosen(&[], &host, OLD, &OfiConfig::default()).is_empty());
}

#[test]
fn the_users_order_of_providers_comes_before_the_score() {
    let (mut all, host) = (of_1_17(), Host::default());
    let with = |all: &[Facts], provider: &str| chosen(all, &host, OLD, &config(provider, ""));
    assert_eq!(with(&all, "sockets,net"), ["sockets eth0"]);
    assert_eq!(with(&all, "verbs,sockets,net"), ["sockets eth0"]);
    assert_eq!(with(&all, "tcp"), ["tcp;ofi_rxm eth0"]);
    assert_eq!(with(&all, "!net"), ["tcp;ofi_rxm eth0"]);
    assert_eq!(with(&all, "shm"), ["shm shm"]);
    assert!(with(&all, "tcp,!tcp").is_empty());
    assert!(
        why_not(&all, &host, &config("sockets,net", ""), 4)
            .contains("sockets comes first in NETMOD_OFI_PROVIDER")
    );
    assert!(why_not(&all, &host, &config("sockets", ""), 4).contains("does not name it"));
    assert!(why_not(&all, &host, &config("!net", ""), 4).contains("!net"));
    all.push(offer("tcp", "eth0", "192.0.2.2"));
    assert_eq!(with(&all, "tcp"), ["tcp eth0"]);
    assert_eq!(with(&all, "tcp;ofi_rxm"), ["tcp;ofi_rxm eth0"]);
}

#[test]
fn a_provider_with_a_defect_is_used_when_it_is_named() {
    let all = [offer("udp;ofi_rxd", "eth0", "192.0.2.2"), offer("shm", "shm", "")];
    let host = Host::default();
    assert_eq!(chosen(&all, &host, OLD, &OfiConfig::default()), ["shm shm"]);
    let why = why_not(&all, &host, &OfiConfig::default(), 0);
    assert!(why.contains("stall") && why.contains("NETMOD_OFI_PROVIDER=udp;ofi_rxd"), "{why}");
    assert_eq!(chosen(&all, &host, OLD, &config("udp", "")), ["udp;ofi_rxd eth0"]);
    assert_eq!(chosen(&all, &host, version(2, 6), &OfiConfig::default()), ["udp;ofi_rxd eth0"]);
}

#[test]
fn hardware_is_taken_if_its_link_is_up_fastest_first() {
    let link = |speed, up| Some(NicFacts { speed, up, ..NicFacts::default() });
    let mut all = vec![offer("tcp", "eth0", "192.0.2.2")];
    for (i, (speed, up)) in [
        (Some(100_000), Some(true)),
        (Some(400_000), Some(true)),
        (Some(400_000), Some(false)),
        (None, None),
        (Some(200_000), None),
    ]
    .into_iter()
    .enumerate()
    {
        all.push(Facts { nic: link(speed, up), ..offer("verbs;ofi_rxm", &format!("mlx5_{i}"), "") });
    }
    let host = Host::default();
    let names = |of: &[u8]| of.iter().map(|i| format!("verbs;ofi_rxm mlx5_{i}")).collect::<Vec<_>>();
    assert_eq!(chosen(&all, &host, OLD, &OfiConfig::default()), names(&[1, 4, 0, 3]));
    assert!(why_not(&all, &host, &OfiConfig::default(), 3).contains("link is down"));
    let two = OfiConfig { domains: 2, ..OfiConfig::default() };
    assert_eq!(chosen(&all, &host, OLD, &two), names(&[1, 4]));
    assert!(why_not(&all, &host, &two, 1).contains("NETMOD_OFI_DOMAINS=2"));
    assert_eq!(chosen(&all, &host, OLD, &config("", "mlx5_*,!mlx5_1")), names(&[4, 0, 3]));
    assert!(why_not(&all, &host, &config("", "mlx5_0"), 2).contains("NETMOD_OFI_DOMAIN=mlx5_0"));
}

#[test]
fn domains_to_other_hosts_are_preferred_then_possible_ones_then_loopback() {
    let host = Host {
        nics: vec![
            nic("eth0", Kind::Physical, "192.0.2.2"),
            nic("docker0", Kind::BridgeIn, "172.17.0.1"),
            nic("lo", Kind::Loopback, "127.0.0.1"),
            Nic { carrier: false, ..nic("eth1", Kind::Physical, "198.51.100.2") },
        ],
        ..Host::default()
    };
    let all = [
        offer("tcp", "lo", "127.0.0.1"),
        offer("tcp", "docker0", "172.17.0.1"),
        offer("tcp", "eth0", "192.0.2.2"),
        offer("tcp", "eth1", "198.51.100.2"),
    ];
    let with = |all: &[Facts], domain: &str| chosen(all, &host, OLD, &config("", domain));
    assert_eq!(with(&all, ""), ["tcp eth0"]);
    assert_eq!(with(&all[..2], ""), ["tcp docker0"]);
    assert_eq!(with(&all[..1], ""), ["tcp lo"]);
    assert_eq!(with(&all, "lo"), ["tcp lo"]);
    assert_eq!(with(&all, "lo,eth0"), ["tcp eth0", "tcp lo"]);
    assert_eq!(with(&all, "172.17.0.0/16"), ["tcp docker0"]);
    assert!(why_not(&all, &host, &OfiConfig::default(), 1).contains("docker0 does not reach other hosts"));
    assert!(why_not(&all, &host, &OfiConfig::default(), 3).contains("link is down"));
}

#[test]
fn unsupported_requirements_are_refused() {
    let good = offer("a", "d", "");
    let refuse = |changed: Facts, part: &str| {
        let why = why_not(&[changed], &Host::default(), &OfiConfig::default(), 0);
        assert!(why.contains(part), "{why}");
    };
    refuse(Facts { mode: FI_MSG_PREFIX, ..good.clone() }, "mode 0x400000000000000");
    refuse(Facts { mr_mode: FI_MR_MMU_NOTIFY | FI_MR_LOCAL, ..good.clone() }, "mr_mode 0x80");
    refuse(Facts { tx_order: 0, ..good.clone() }, "FI_ORDER_SAS");
    refuse(Facts { rx_order: 0, ..good.clone() }, "FI_ORDER_SAS");
    refuse(Facts { max_msg: 1000, ..good.clone() }, "at most 1000 bytes");
    refuse(Facts { caps: FI_RMA, ..good.clone() }, "no messages");
    refuse(Facts { provider: "ofi_hook_noop;tcp".into(), ..good.clone() }, "observes");
    let fine = [
        Facts { mode: HONOURED_MODES, mr_mode: MrMode::HONOURED, ..good.clone() },
        // Frames are as long as the provider's messages may be.
        Facts { max_msg: 1024, ..good.clone() },
        Facts { mr_mode: FI_MR_BASIC, ..good.clone() },
        Facts { mr_mode: FI_MR_SCALABLE, ..good.clone() },
        // The registration mode is irrelevant where nothing is registered.
        Facts { mr_mode: FI_MR_MMU_NOTIFY, caps: FI_MSG, ..good },
    ];
    for one in fine {
        assert_eq!(
            chosen(core::slice::from_ref(&one), &Host::default(), OLD, &OfiConfig::default()).len(),
            1,
            "{one:?}"
        );
    }
}

#[test]
fn without_rma_a_provider_comes_after_its_equals() {
    let all = [Facts { caps: FI_MSG, ..offer("one", "a", "") }, offer("two", "b", "")];
    assert_eq!(chosen(&all, &Host::default(), OLD, &OfiConfig::default()), ["two b"]);
    assert_eq!(chosen(&all[..1], &Host::default(), OLD, &OfiConfig::default()), ["one a"]);
}

#[test]
fn more_is_asked_for_before_less() {
    let plain = requests(&OfiConfig::default());
    for (named, without) in [(0, 1), (2, 3)] {
        assert!(plain[named].0 & FI_NAMED_RX_CTX != 0);
        assert_eq!(plain[without].0 | FI_NAMED_RX_CTX, plain[named].0);
        // A provider without atomic operations is one all the same.
        assert_eq!(plain[named].0 & FI_ATOMIC != 0, named == 0);
    }
    assert!(plain[3].0 & FI_RMA != 0 && plain[10].0 & FI_RMA == 0);
    assert!(plain.iter().all(|r| r.2 == FI_THREAD_DOMAIN));
    // Missing optional capabilities are no reason for rejection.
    for caps in [FI_MSG | FI_MULTI_RECV | FI_RMA, FI_MSG | FI_RMA] {
        for mr_mode in [MrMode::HONOURED, FI_MR_BASIC, FI_MR_SCALABLE] {
            assert!(plain.contains(&(caps, mr_mode, FI_THREAD_DOMAIN)), "{caps:#x} {mr_mode:#x}");
        }
    }
    // Contexts shared by threads are requested explicitly.
    let many = OfiConfig { contexts: 4, ..OfiConfig::default() };
    for (i, request) in requests(&many).into_iter().enumerate() {
        let shared = plain[i].0 & FI_NAMED_RX_CTX != 0;
        let threading = if shared { FI_THREAD_COMPLETION } else { FI_THREAD_DOMAIN };
        assert_eq!(request, (plain[i].0, plain[i].1, threading), "{i}");
    }
    assert_eq!(requests(&OfiConfig { disable_sep: true, ..many }), plain);
}

#[test]
fn endpoints_are_shared_where_that_is_wanted_and_can_be() {
    let facts = |caps, tx_contexts, rx_contexts| Facts {
        caps,
        tx_contexts,
        rx_contexts,
        ..offer("sockets", "eth0", "")
    };
    let ask = |n, disable_sep, facts: &Facts| {
        contexts(&OfiConfig { contexts: n, disable_sep, ..OfiConfig::default() }, facts)
    };
    let able = facts(FI_MSG | FI_NAMED_RX_CTX, 16, 8);
    assert_eq!(ask(4, false, &able), Ok(4));
    assert_eq!(ask(20, false, &able), Ok(8));
    assert_eq!(ask(1, false, &able), Err(None));
    assert_eq!(ask(1, true, &able), Err(None));
    let why = |result: Result<usize, Option<String>>| result.expect_err("a plain one").expect("a reason");
    assert!(why(ask(4, true, &able)).contains("NETMOD_OFI_DISABLE_SEP"));
    for unable in [facts(FI_MSG, 16, 16), facts(FI_MSG | FI_NAMED_RX_CTX, 1, 16)] {
        assert!(why(ask(4, false, &unable)).contains("sockets has no scalable"));
    }
    // The reason for the choice tells.
    let said = |n, facts: &Facts| {
        let cfg = OfiConfig { contexts: n, ..OfiConfig::default() };
        match decide(&[facts], &Host::default(), OLD, &cfg).remove(0).verdict {
            Verdict::Chosen(why) | Verdict::Refused(why) => why,
        }
    };
    let (able, unable) =
        (Facts { tx_contexts: 16, rx_contexts: 8, ..offer("sockets", "a", "") }, offer("shm", "a", ""));
    let able = Facts { caps: able.caps | FI_NAMED_RX_CTX, ..able };
    assert!(said(4, &able).contains("an endpoint with 4 contexts"));
    assert!(said(4, &unable).contains("plain endpoints: shm has no scalable"));
    assert!(!said(1, &able).contains("endpoint"));
}

#[test]
fn transfers_are_cut_where_tcp_paces_itself() {
    for provider in ["net", "tcp", "tcp;ofi_rxm"] {
        assert!(wants_parts(provider, "bbr\n") && wants_parts(provider, "bbr2"), "{provider}");
        for congestion in ["cubic\n", "reno", "dctcp", ""] {
            assert!(!wants_parts(provider, congestion), "{provider} {congestion}");
        }
    }
    for provider in ["sockets", "udp;ofi_rxd", "shm", "verbs;ofi_rxm", "efa", "psm3"] {
        assert!(!wants_parts(provider, "bbr"), "{provider}");
    }
}
