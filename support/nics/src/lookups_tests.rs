//! Lookups at the recorded host, and with lost answers.

use std::cell::RefCell;
use std::rc::Rc;

use netmod_matching::{Answer, Query, Routes};

use super::*;
use crate::simulated::Simulated;

/// Queries to the host of `testdata/host.sh`, and the right answers.
pub(crate) const ASKED: [(u32, &str, &str, Answer); 31] = [
    // On-link, also by the second interface of the subnet.
    (100, "10.1.0.1", "10.1.0.77", Answer::OnLink),
    (101, "10.1.0.2", "10.1.0.77", Answer::OnLink),
    // An address of its own, and one that no host has.
    (100, "10.1.0.1", "10.1.0.3", Answer::OnLink),
    (100, "10.1.0.1", "10.1.0.255", Answer::None),
    // /32 with a route of the subnet.
    (102, "10.128.0.2", "10.128.0.1", Answer::OnLink),
    (102, "10.128.0.2", "10.128.0.3", Answer::Gateway),
    (102, "10.128.0.2", "10.1.0.77", Answer::None),
    // The default route is by e0.
    (100, "10.1.0.1", "192.168.0.1", Answer::Default),
    (101, "10.1.0.2", "192.168.0.1", Answer::None),
    // Routes by a gateway with an IPv6 address.
    (100, "10.1.0.1", "10.20.0.1", Answer::Gateway),
    // Blackhole, unreachable, prohibit.
    (100, "10.1.0.1", "10.21.0.1", Answer::None),
    (100, "10.1.0.1", "10.22.0.1", Answer::None),
    (100, "10.1.0.1", "10.23.0.1", Answer::None),
    // Several next hops: a gateway by e0, none by e1.
    (100, "10.1.0.1", "10.24.0.1", Answer::Gateway),
    (101, "10.1.0.2", "10.24.0.1", Answer::OnLink),
    // A next hop that is an object, and not shown with the route.
    (100, "10.1.0.1", "10.25.0.1", Answer::Gateway),
    // A rule by source, which does not apply to other sources.
    (101, "10.1.0.2", "10.26.0.1", Answer::Gateway),
    (100, "10.1.0.1", "10.26.0.1", Answer::Default),
    // A route stays without a carrier.
    (103, "10.3.0.1", "10.3.0.2", Answer::OnLink),
    (100, "fd00:1::1", "fd00:1::77", Answer::OnLink),
    (101, "fd00:1::2", "fd00:1::77", Answer::OnLink),
    (100, "fd00:1::1", "fd00:1::2", Answer::OnLink),
    (101, "fd00:1::2", "2001:db8::1", Answer::Default),
    (100, "fd00:1::1", "2001:db8::1", Answer::None),
    (100, "fd00:1::1", "fd00:24::1", Answer::Gateway),
    (101, "fd00:1::2", "fd00:24::1", Answer::Gateway),
    (100, "fd00:1::1", "fd00:21::1", Answer::None),
    // A better route by the other interface does not hide its own route.
    (100, "fd00:1::1", "fd00:27::1", Answer::Gateway),
    (101, "fd00:1::2", "fd00:27::1", Answer::Default),
    (100, "fd00:1::1", "fd00:25::1", Answer::Gateway),
    (110, "172.17.0.1", "172.17.0.2", Answer::OnLink),
];

pub(crate) fn queries() -> Vec<Query> {
    let query = |(index, from, to, _): &(u32, &str, &str, Answer)| Query {
        index: *index,
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
    };
    ASKED.iter().map(query).collect()
}

fn expected() -> Vec<Answer> {
    ASKED.iter().map(|(.., answer)| *answer).collect()
}

fn show(answers: &[Answer]) -> String {
    let lines = ASKED.iter().zip(answers).filter(|((.., expected), got)| expected != *got);
    lines.map(|(asked, got)| format!("{asked:?}: {got:?}\n")).collect()
}

#[test]
fn the_recorded_host_answers() {
    let mut lookups = Lookups::by(&Simulated::host());
    let answers = lookups.ask(&queries());
    assert_eq!(answers, expected(), "{}", show(&answers));
    assert_eq!(lookups.notes(), [""; 0]);
    assert_eq!(lookups.ask(&[]), []);
}

#[test]
fn many_are_asked_in_few_datagrams() {
    let kernel = Simulated::host();
    let mut lookups = Lookups::by(&kernel);
    // Each query needs a second one for the gateway, which is shared.
    let queries = vec![queries()[0]; 900];
    assert_eq!(lookups.ask(&queries), [Answer::OnLink; 900]);
    assert_eq!(kernel.sends.get(), 900usize.div_ceil(BATCH));
}

#[test]
fn answers_in_any_order_are_told_apart() {
    let kernel = Simulated::host().tampered(|_, _, replies| replies.make_contiguous().reverse());
    let mut lookups = Lookups::by(&kernel);
    let answers = lookups.ask(&queries());
    assert_eq!(answers, expected(), "{}", show(&answers));
}

#[test]
fn lost_answers_are_asked_for_again_with_fewer_at_once() {
    let kernel = Simulated::host().tampered(|_, _, replies| {
        // A buffer with room for three.
        if replies.len() > 3 {
            replies.truncate(3);
            replies.push_front(Err(libc::ENOBUFS));
        }
    });
    let mut lookups = Lookups::by(&kernel);
    let answers = lookups.ask(&queries());
    assert_eq!(answers, expected(), "{}", show(&answers));
    assert_eq!(lookups.notes(), [""; 0]);
    // Each round gets three answers or halves the batch; four of the answers need a second query.
    assert!(kernel.sends.get() <= 5 + (ASKED.len() + 4).div_ceil(2) + 1, "{} rounds", kernel.sends.get());
}

#[test]
fn late_answers_belong_to_nobody() {
    // The first query gets the second one's answer too late.
    let late = Rc::new(RefCell::new(None));
    let kernel = Simulated::host().tampered(move |sends, _, replies| {
        if sends == 0 {
            *late.borrow_mut() = replies.remove(1);
        } else if let Some(late) = late.borrow_mut().take() {
            replies.push_front(late);
        }
    });
    let mut lookups = Lookups::by(&kernel);
    let [on_link, none] = [queries()[0], queries()[3]];
    assert_eq!(lookups.ask(&[on_link, none]), [Answer::OnLink, Answer::None]);
    assert_eq!(lookups.ask(&[none, on_link]), [Answer::None, Answer::OnLink]);
}

#[test]
fn without_netlink_nothing_is_known() {
    let kernel = Simulated { no_netlink: libc::EPERM, ..Simulated::host() };
    let mut lookups = Lookups::by(&kernel);
    assert_eq!(lookups.ask(&queries()), vec![Answer::Unknown; ASKED.len()]);
    let [note] = lookups.notes() else { panic!("{:?}", lookups.notes()) };
    assert!(note.contains("nothing is known of this host's routes"), "{note}");
}

#[test]
fn one_who_never_answers_is_given_up() {
    let kernel = Simulated::host().tampered(|_, _, replies| replies.clear());
    let mut lookups = Lookups::by(&kernel);
    assert_eq!(lookups.ask(&queries()), vec![Answer::Unknown; ASKED.len()]);
    assert!(lookups.notes().iter().any(|n| n.contains("not asked for any more")), "{:?}", lookups.notes());
    let asked = kernel.sends.get();
    assert!(asked <= 6 + PATIENCE as usize, "{asked} waits");
    assert_eq!(lookups.ask(&queries()[..1]), [Answer::Unknown]);
    assert_eq!(kernel.sends.get(), asked);
}

#[test]
fn a_broken_socket_ends_the_asking() {
    let kernel = Simulated::host().tampered(|_, _, replies| {
        replies.insert(2, Err(libc::EBADF));
    });
    let mut lookups = Lookups::by(&kernel);
    let mut wanted = vec![Answer::Unknown; ASKED.len()];
    wanted[..2].fill(Answer::OnLink);
    assert_eq!(lookups.ask(&queries()), wanted);
    assert_eq!(kernel.sends.get(), 1);
    assert_eq!(lookups.notes().len(), 1);
}

#[test]
fn families_do_not_reach_each_other() {
    let kernel = Simulated::host();
    let mut lookups = Lookups::by(&kernel);
    let mixed = Query { index: 100, from: "10.1.0.1".parse().unwrap(), to: "fd00:1::77".parse().unwrap() };
    assert_eq!(lookups.ask(&[mixed]), [Answer::None]);
    assert_eq!(kernel.sends.get(), 0);
}
