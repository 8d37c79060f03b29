//! The text of explanations: bounded in width, and free of control sequences.

use super::*;
use crate::record::{Address, Host, Kind};
use crate::{Rules, Side, pair};

fn nic(name: &str, kind: Kind, ip: &str, prefix: u8) -> Nic {
    Nic {
        name: name.into(),
        index: 1,
        kind,
        addresses: vec![Address { ip: ip.parse().unwrap(), prefix }],
        speed: Some(1000),
        mtu: 1500,
        up: true,
        carrier: true,
    }
}

fn explain(a: Vec<Nic>, b: Vec<Nic>) -> Explanation {
    let (a, b) = (Host { nics: a, ..Host::default() }, Host { nics: b, ..Host::default() });
    let side = |name, host| Side { name, host };
    pair(&side(b"a", &a), &side(b"b", &b), &Rules::default()).explain()
}

#[test]
fn a_newcomer_reads_why_docker0_was_not_used() {
    let host =
        |ip| vec![nic("eth0", Kind::Physical, ip, 24), nic("docker0", Kind::BridgeIn, "172.17.0.1", 16)];
    let explanation = explain(host("10.1.0.1"), host("10.1.0.2"));
    let unused: Vec<_> =
        explanation.unused.iter().map(|u| (u.whose, u.nic.as_str(), u.why.as_str())).collect();
    let why = "a bridge without a port that leads out of the host: both hosts have the same address 172.17.0.1: whoever sends to it reaches itself, and nobody else can";
    assert_eq!(unused, [(Whose::Own, "docker0", why), (Whose::Peer, "docker0", why)]);
    assert_eq!(
        explanation.to_string().lines().take(2).collect::<Vec<_>>(),
        [
            "pair  with peer's  how",
            "eth0  eth0         10.1.0.1 to 10.1.0.2, on-link, 1000 Mb/s; guessed from the addresses' prefixes, no routing",
        ]
    );
}

#[test]
fn what_an_interface_is_is_told_once_even_if_it_is_down() {
    let docker = Nic { carrier: false, ..nic("docker0", Kind::BridgeIn, "172.17.0.1", 16) };
    let port = nic("veth1", Kind::Port, "10.9.0.1", 24);
    let own = vec![docker, nic("lo", Kind::Loopback, "127.0.0.1", 8), port];
    let explanation = explain(own, vec![nic("eth0", Kind::Physical, "10.0.0.2", 24)]);
    let why: Vec<&str> = explanation.unused.iter().map(|u| u.why.as_str()).collect();
    assert_eq!(
        why,
        [
            "a bridge without a port that leads out of the host: it has no carrier: is its cable plugged in, or its other end up?",
            "the loopback interface, which leads nowhere else",
            "a port of a bridge or bond, which carries its traffic and has the address",
            "none of the other side's interfaces is of use",
        ]
    );
}

#[test]
fn the_table_is_as_wide_as_asked_and_says_everything_once() {
    let host = |third: u8| -> Vec<Nic> {
        (0..12).map(|i| nic(&format!("e{i}"), Kind::Physical, &format!("10.{third}.{i}.1"), 24)).collect()
    };
    let explanation = explain(host(1), host(2));
    for width in [60, 80, 110, 200] {
        let text = format!("{explanation:width$}");
        assert!(text.lines().all(|l| l.chars().count() <= width), "{width}\n{text}");
        assert!(text.contains("e11"));
    }
    // A width that is too small must not panic.
    assert!(!format!("{explanation:1}").is_empty());
    assert_eq!(explanation.verdicts.len(), 144);
}

#[test]
fn names_of_a_peer_cannot_steer_the_terminal() {
    let explanation = explain(
        vec![nic("e0", Kind::Physical, "10.0.0.1", 24)],
        vec![
            nic("\x1b[31m", Kind::Physical, "10.0.0.2", 24),
            nic("\u{202e}x", Kind::Physical, "10.0.0.3", 24),
        ],
    );
    let text = explanation.to_string();
    assert!(!text.contains('\x1b') && text.contains("\\u{1b}"), "{text}");
    assert!(!text.contains('\u{202e}'), "{text}");
}

#[test]
fn words_are_wrapped() {
    assert_eq!(wrap("one two three", 7), ["one two", "three"]);
    assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
    assert_eq!(wrap("", 3), [""]);
    assert_eq!(wrap("a b", 0), ["a", "b"]);
}
