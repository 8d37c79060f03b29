//! Answers that the recorded host did not give.

use super::*;

fn query() -> Query {
    Query { index: 7, from: "10.0.0.1".parse().unwrap(), to: "10.5.0.1".parse().unwrap() }
}

fn query6() -> Query {
    Query { index: 7, from: "fd00::1".parse().unwrap(), to: "fd05::1".parse().unwrap() }
}

/// Returns the verdict on a route with these attributes.
fn on(query: &Query, form: Form, kind: u8, flags: u32, prefix: u8, attributes: &[(u16, &[u8])]) -> Verdict {
    let mut fixed = [0; FIXED];
    fixed[0] = if query.to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    fixed[1] = prefix;
    fixed[7] = kind;
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    let mut bytes = Vec::new();
    let mut request = wire::request(&mut bytes, libc::RTM_NEWROUTE, 0, 1, &fixed);
    for (kind, value) in attributes {
        request = request.attribute(&mut bytes, *kind, value);
    }
    verdict(&wire::messages(&bytes).next().unwrap().unwrap(), query, form)
}

fn error(code: i32) -> Verdict {
    let mut bytes = Vec::new();
    wire::request(&mut bytes, libc::NLMSG_ERROR as u16, 0, 1, &(-code).to_ne_bytes());
    verdict(&wire::messages(&bytes).next().unwrap().unwrap(), &query(), Form::Match)
}

const HERE: (u16, &[u8]) = (libc::RTA_OIF, &7u32.to_ne_bytes());
const ELSEWHERE: (u16, &[u8]) = (libc::RTA_OIF, &8u32.to_ne_bytes());

#[test]
fn errors_that_forbid_are_none_and_others_are_unknown() {
    for code in [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL] {
        assert_eq!(error(code), Verdict::Is(Answer::None), "{code}");
    }
    for code in [libc::EPERM, libc::ENODEV, libc::EOPNOTSUPP, libc::ENOMEM] {
        assert_eq!(error(code), Verdict::Refused(code));
    }
    assert!(matches!(error(0), Verdict::Failed(_)));
}

#[test]
fn classes() {
    let gateway = (libc::RTA_GATEWAY, &[10, 0, 0, 9][..]);
    let other_family = (libc::RTA_VIA, &[10, 0, 1, 2][..]);
    let wrapped = (libc::RTA_ENCAP, &[][..]);
    for (prefix, attributes, answer) in [
        (24, &[HERE][..], Answer::OnLink),
        (0, &[HERE], Answer::OnLink),
        (24, &[HERE, gateway], Answer::Gateway),
        (1, &[gateway, HERE], Answer::Gateway),
        (0, &[HERE, gateway], Answer::Default),
        (0, &[HERE, other_family], Answer::Default),
        (16, &[HERE, other_family], Answer::Gateway),
        (16, &[HERE, wrapped], Answer::Gateway),
        (24, &[ELSEWHERE], Answer::None),
        (24, &[], Answer::None),
    ] {
        let got = on(&query(), Form::Match, libc::RTN_UNICAST, 0, prefix, attributes);
        assert_eq!(got, Verdict::Is(answer), "{prefix} {attributes:?}");
    }
}

#[test]
fn types() {
    for (kind, answer) in [
        (libc::RTN_LOCAL, Answer::OnLink),
        (libc::RTN_UNICAST, Answer::OnLink),
        (libc::RTN_BROADCAST, Answer::None),
        (libc::RTN_MULTICAST, Answer::None),
        (libc::RTN_BLACKHOLE, Answer::None),
        (libc::RTN_UNREACHABLE, Answer::None),
        (libc::RTN_PROHIBIT, Answer::None),
    ] {
        assert_eq!(on(&query(), Form::Match, kind, 0, 24, &[HERE]), Verdict::Is(answer), "{kind}");
    }
    assert_eq!(on(&query(), Form::Match, libc::RTN_LOCAL, 0, 32, &[ELSEWHERE]), Verdict::Is(Answer::OnLink));
}

#[test]
fn what_is_asked_again() {
    let unicast = libc::RTN_UNICAST;
    let object = (NEXT_HOP, &4u32.to_ne_bytes()[..]);
    assert_eq!(
        on(&query(), Form::Match, unicast, 0, 16, &[object]),
        Verdict::Ask(Form::Resolved { prefix: 16 })
    );
    assert_eq!(on(&query6(), Form::Match, unicast, 0, 64, &[ELSEWHERE]), Verdict::Ask(Form::Strict));
    assert_eq!(on(&query6(), Form::Strict, unicast, 0, 64, &[ELSEWHERE]), Verdict::Is(Answer::None));
    assert_eq!(
        on(&query6(), Form::Strict, unicast, 0, 64, &[object]),
        Verdict::Ask(Form::Resolved { prefix: 64 })
    );
    let resolved = Form::Resolved { prefix: 16 };
    let gateway = (libc::RTA_GATEWAY, &[10, 0, 0, 9][..]);
    let cloned = libc::RTM_F_CLONED;
    assert_eq!(on(&query(), resolved, unicast, cloned, 32, &[HERE, gateway]), Verdict::Is(Answer::Gateway));
    assert_eq!(on(&query(), resolved, unicast, cloned, 32, &[HERE]), Verdict::Is(Answer::OnLink));
    assert_eq!(on(&query(), resolved, unicast, cloned, 32, &[ELSEWHERE]), Verdict::Is(Answer::None));
    let default = Form::Resolved { prefix: 0 };
    assert_eq!(on(&query(), default, unicast, cloned, 32, &[HERE, gateway]), Verdict::Is(Answer::Default));
}

#[test]
fn a_kernel_that_ignores_the_question_for_the_entry_is_not_believed() {
    let got = on(&query(), Form::Match, libc::RTN_UNICAST, libc::RTM_F_CLONED, 32, &[HERE]);
    assert!(matches!(got, Verdict::Failed(why) if why.contains("FIB_MATCH")), "{got:?}");
}

#[test]
fn next_hops_that_are_cut_or_of_others() {
    let mut hops = Vec::new();
    for (interface, gateway) in [(8u32, true), (7, false), (7, true)] {
        let len: u16 = if gateway { 16 } else { 8 };
        hops.extend_from_slice(&len.to_ne_bytes());
        hops.extend_from_slice(&[0, 0]);
        hops.extend_from_slice(&interface.to_ne_bytes());
        if gateway {
            hops.extend_from_slice(&8u16.to_ne_bytes());
            hops.extend_from_slice(&libc::RTA_GATEWAY.to_ne_bytes());
            hops.extend_from_slice(&[10, 0, 0, 9]);
        }
    }
    assert_eq!((hop(&hops, 8), hop(&hops, 7), hop(&hops, 9)), (Some(true), Some(false), None));
    for cut in 0..16 {
        assert_eq!(hop(&hops[..cut], 8), None, "{cut}");
    }
    assert_eq!(hop(&[0; 16], 0), None, "a hop of no length");
}
