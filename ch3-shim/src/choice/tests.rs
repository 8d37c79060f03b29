use netmod_core::GroupId;

use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn name(rank: u32) -> PeerName {
    PeerName { group: GroupId([1; 16]), rank }
}

fn offered(name: &str, starts: bool) -> Offered {
    Offered { name: name.into(), failure: (!starts).then(|| "no memory".into()) }
}

/// Every order of every subset of the names, each of which could start or not.
fn offers() -> Vec<Offer> {
    let mut lists: Vec<Vec<Offered>> = vec![Vec::new()];
    let mut at = 0;
    while at < lists.len() {
        let list = lists[at].clone();
        for n in NAMES.iter().filter(|n| list.iter().all(|o| o.name != **n)) {
            for starts in [true, false] {
                lists.push(list.iter().cloned().chain([offered(n, starts)]).collect());
            }
        }
        at += 1;
    }
    lists.into_iter().map(Offer::new).collect()
}

/// All small cases: two processes, with every order of up to three netmods, and every set of those
/// that reach.
#[test]
fn both_ends_choose_the_same() {
    let all = offers();
    assert_eq!(all.len(), 79);
    for left in &all {
        for right in &all {
            for mask in 0..8u32 {
                let reaches = |n: &str| match NAMES.iter().position(|x| *x == n) {
                    Some(i) if mask & 1 << i != 0 => Ok(()),
                    _ => Err(VcError::of_card("no cable")),
                };
                let here = choose((name(0), left), (name(1), right), reaches);
                let there = choose((name(1), right), (name(0), left), reaches);
                let netmod = |c: &Result<Choice, NoChoice>| c.as_ref().ok().map(|c| c.netmod.clone());
                assert_eq!(netmod(&here), netmod(&there), "{left:?} {right:?} {mask}");
                let has = |o: &Offer, n: &str| o.netmods.contains(&offered(n, true));
                let best = left
                    .netmods
                    .iter()
                    .map(|o| &o.name)
                    .find(|n| has(left, n) && has(right, n) && reaches(n).is_ok());
                assert_eq!(netmod(&here).as_ref(), best, "{left:?} {right:?} {mask}");
                for (own, theirs, done) in [(left, right, &here), (right, left, &there)] {
                    if let Err(why) = done {
                        let why = why.to_string();
                        let orders = format!("NETMOD is {} here and {} there", own.order(), theirs.order());
                        assert!(why.contains(&orders), "{why}");
                        for o in own.netmods.iter().chain(&theirs.netmods) {
                            assert!(
                                why.contains(&format!("{}: ", o.name)),
                                "no reason for {}: {why}",
                                o.name
                            );
                        }
                    }
                }
            }
        }
    }
    netmod_models::state_space(module_path!(), "two offers and what reaches", all.len() * all.len() * 8);
}

#[test]
fn a_choice_is_explained() {
    let of = |text: &str| Offer::new(text.split(',').map(|n| offered(n, true)).collect());
    let reaches = |n: &str| if n == "shm" { Err(VcError::of_card("no memory")) } else { Ok(()) };
    let why = |a: &Offer, b: &Offer, ranks: [u32; 2]| {
        choose((name(ranks[0]), a), (name(ranks[1]), b), reaches).map(|c| c.why)
    };
    let (mine, same, other) = (of("shm,tcp"), of("shm,tcp"), of("tcp,shm"));
    assert_eq!(why(&mine, &same, [0, 1]).as_deref(), Ok("shm: no memory; tcp: chosen"));
    let text = why(&mine, &other, [0, 1]).expect("tcp");
    assert_eq!(text, "shm: no memory; tcp: chosen by NETMOD here, which goes before its tcp,shm");
    let text = why(&mine, &other, [1, 0]).expect("tcp");
    assert_eq!(text, "tcp: chosen by its NETMOD tcp,shm, which goes before that here");
}

/// Reasons beyond those that a netmod gives: it was left out, or could not start.
#[test]
fn what_is_missing_is_named_with_its_end() {
    let mine = Offer::new(vec![offered("shm", true), offered("ofi", false)]);
    let theirs = Offer::new(vec![offered("tcp", true)]);
    let why =
        choose((name(0), &mine), (name(1), &theirs), |_| Ok(())).expect_err("nothing in common").to_string();
    for part in [
        "shm: not in NETMOD there",
        "ofi: could not start here: no memory",
        "tcp: not in NETMOD here",
        "NETMOD is shm,ofi here and tcp there",
    ] {
        assert!(why.contains(part), "no \"{part}\" in {why}");
    }
}

/// Two versions of the packets never meet, whatever netmod would carry them.
#[test]
fn packets_of_another_version_are_refused() {
    let mine = Offer::new(vec![offered("tcp", true)]);
    let theirs = Offer { packets: mine.packets + 1, ..mine.clone() };
    let why =
        choose((name(0), &mine), (name(1), &theirs), |_| Ok(())).expect_err("another version").to_string();
    assert!(why.contains("same version") && why.contains(&mine.packets.to_string()), "{why}");
}

fn card(offer: &Offer) -> Card {
    let mut w = CardWriter::new();
    offer.emit(&mut w).expect("it fits");
    Card::parse(&w.finish()).expect("a card")
}

#[test]
fn an_offer_is_read_as_it_was_written() {
    for offer in offers() {
        assert_eq!(Offer::of(&card(&offer)), Ok(offer));
    }
    let long = |why: &str| Offer::new(vec![Offered { name: "tcp".into(), failure: Some(why.into()) }]);
    assert_eq!(Offer::of(&card(&long(&"ä".repeat(999)))), Ok(long(&"ä".repeat(MAX_REASON / 2))));
}

#[test]
fn sections_that_are_cut_or_odd_are_errors() {
    let offer = Offer::new(vec![offered("shm", true), offered("tcp", false)]);
    let body = card(&offer).section(SECTION).expect("the section").body.to_vec();
    let read = |body: &[u8]| {
        let mut w = CardWriter::new();
        w.section(SECTION, VERSION, body).expect("it fits");
        Offer::of(&Card::parse(&w.finish()).expect("a card"))
    };
    assert_eq!(read(&body), Ok(offer));
    for n in 0..body.len() {
        assert!(read(&body[..n]).is_err(), "{n} bytes");
    }
    assert!(read(&[&body[..], &[0]].concat()).is_err());
    for at in 0..body.len() {
        for bit in 0..8 {
            let mut altered = body.clone();
            altered[at] ^= 1 << bit;
            // Another offer, or an error: never a panic.
            let _ = read(&altered);
        }
    }
    assert!(Offer::of(&Card::parse(&CardWriter::new().finish()).expect("a card")).is_err());
}
