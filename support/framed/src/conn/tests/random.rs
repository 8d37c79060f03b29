//! Random schedules of several processes: losses, deaths, terminations at any moment. In the end
//! nothing is left.

use super::*;

/// Returns the number of schedules; NETMOD_TEST_SCHEDULES raises it.
fn schedules() -> u64 {
    std::env::var("NETMOD_TEST_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000)
}

const N: usize = 3;

/// Each process's VCs by rank.
type Vcs = Vec<Vec<Option<VcId>>>;

fn act(w: &mut World, vcs: &mut Vcs, rng: &mut Rng, incarnation: &mut u64) {
    let (at, other) = (rng.below(N), rng.below(N));
    if at == other {
        return;
    }
    let vc = vcs[at][other];
    match (rng.below(40), vc) {
        (0..=3, Some(vc)) => w.connect(at, vc),
        (4, Some(vc)) => w.run(at, |m, env| m.terminate(vc, env)),
        (5, Some(vc)) if rng.below(3) == 0 => {
            w.run(at, |m, env| m.abort(vc, VcError::new(VcErrorKind::Aborted, None, "test"), env));
        }
        (6, Some(vc)) => w.run(at, |m, _| m.revive(vc)),
        (7, Some(vc)) if rng.below(4) == 0 => {
            w.run(at, |m, env| m.remove(vc, env));
            vcs[at][other] = None;
        }
        (8, None) => vcs[at][other] = Some(w.vc(at, other as u32)),
        (9, None) => w.run(at, |m, env| m.refuse(&name(other as u32), netmod_core::Refusal::NotWanted, env)),
        (10, _) if rng.below(20) == 0 => w.wires[at][other].clear(),
        (11, _) if rng.below(60) == 0 => {
            *incarnation += 1;
            w.processes[at] =
                process(at as u32, N as u32, *incarnation, 9, Params::new(TIMEOUT, 4, 4, Words::SAMPLE));
            vcs[at] = (0..N).map(|r| (r != at).then(|| w.vc(at, r as u32))).collect();
            (0..N).for_each(|from| w.wires[from][at].clear());
        }
        (12, _) => {
            w.now = w.now + Duration::from_millis(1 << rng.below(13));
            (0..N).for_each(|at| w.run(at, Manager::timer));
        }
        (13, _) => w.processes[at].busy = rng.below(4) == 0,
        _ => drop(w.deliver(at, other)),
    }
}

#[test]
fn random_schedules_leave_nothing_behind_and_can_always_go_on() {
    let mut opened = 0;
    for seed in 1..=schedules() {
        let mut w = World::new(N as u32);
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        w.rng = Rng(rng.next() | 1);
        let mut vcs: Vcs = vec![vec![None; N]; N];
        let mut incarnation = 1_000;
        for _ in 0..400 {
            act(&mut w, &mut vcs, &mut rng, &mut incarnation);
        }
        // Everybody wants everybody, and nothing goes wrong any more.
        w.pass(Duration::from_secs(60));
        (0..N).for_each(|at| w.processes[at].busy = false);
        let mut all: Vec<(usize, VcId)> = vec![];
        for (at, vcs) in vcs.iter().enumerate() {
            for (other, vc) in vcs.iter().enumerate().filter(|(o, _)| *o != at) {
                let vc = vc.unwrap_or_else(|| w.vc(at, other as u32));
                w.run(at, |m, _| m.revive(vc));
                all.push((at, vc));
            }
        }
        // A side that has missed the end of a connection does not learn of it here: only the driver
        // can probe.
        all.iter().for_each(|(at, vc)| w.run(*at, |m, env| m.terminate(*vc, env)));
        w.pass(Duration::from_secs(60));
        w.assert_quiet();
        (0..N).for_each(|at| opened += w.log(at).iter().filter(|l| l.starts_with("opened")).count());
        for (at, vc) in &all {
            w.run(*at, |m, _| m.revive(*vc));
            w.connect(*at, *vc);
        }
        w.pass(Duration::from_secs(10));
        for (at, vc) in &all {
            assert!(w.processes[*at].manager.is_up(*vc), "seed {seed}: {:?}", w.log(*at));
        }
        all.iter().for_each(|(at, vc)| w.run(*at, |m, env| m.terminate(*vc, env)));
        w.pass(Duration::from_secs(10));
        w.assert_quiet();
    }
    assert!(opened as u64 > schedules(), "the schedules connect too rarely: {opened}");
}
