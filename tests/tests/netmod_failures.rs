//! A netmod that fails as a whole, and sends that fail before they have left: whoever gave memory
//! away gets it back.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use ch3_shim::pkt::{Packet, ShortData};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{Device, Ended, Error, Multiple, PROC_NULL, Request, SharedRequest};
use netmod_tests::board::run_devices;
use netmod_tests::conformance::pattern;
use netmod_tests::factory::Tcp;
use netmod_tests::scripted::Script;

/// The tag of a message that comes before the netmod fails, and that of one which never does.
const EARLY: i32 = 3;
const LATE: i32 = 4;

/// Results with the index of the request that each is of, in the list that the call was given.
type Results = Vec<(usize, Ended)>;

/// A call that completes all of these requests.
type Complete<D> = fn(&mut D, Vec<<D as Calls>::Req>) -> Results;

/// Asserts what holds for every device, whatever its requests.
trait Calls: Sized + 'static {
    /// A request.
    type Req: 'static;
    /// All calls that complete requests, by name.
    const CALLS: &'static [(&'static str, Complete<Self>)];
    fn with_a_script() -> (Script, Self);
    fn large(&self) -> usize;
    /// Three receives, of a message that is here, of one that is not, and of nobody's, and a long
    /// send.
    fn start(&mut self) -> Vec<Self::Req>;
    /// Requests that are left.
    fn left(&mut self) -> usize;
}

/// Implements [`Calls`] for a kind of devices: their calls have the same names.
macro_rules! calls {
    ($device:ty, $request:ty) => {
        impl Calls for $device {
            type Req = $request;
            const CALLS: &'static [(&'static str, Complete<$device>)] = &[
                ("wait", |d, reqs| reqs.into_iter().map(|r| d.wait(r)).enumerate().collect()),
                ("test", |d, reqs| {
                    let test = |mut r| loop {
                        match d.test(r) {
                            Ok(Ok(done)) => return Ok(done),
                            Ok(Err(again)) => r = again,
                            Err(failed) => return Err(failed),
                        }
                    };
                    reqs.into_iter().map(test).enumerate().collect()
                }),
                ("wait_all", |d, reqs| d.wait_all(reqs).expect_err("two of them fail").results),
                ("test_all", |d, reqs| d.test_all(reqs).map(drop).expect_err("two of them fail").results),
                ("wait_any", |d, mut reqs| {
                    let (mut results, mut left) = (Vec::new(), vec![0, 1, 2, 3]);
                    while !reqs.is_empty() {
                        let (place, result) = match d.wait_any(&mut reqs) {
                            Ok(None) => panic!("some are left"),
                            Ok(Some((place, done))) => (place, Ok(done)),
                            Err(failed) => (failed.place.expect("the failure is of one"), Err(failed)),
                        };
                        results.push((left.remove(place), result));
                        assert_eq!(left.len(), reqs.len());
                    }
                    results
                }),
                ("wait_some", |d, mut reqs| {
                    let done = d.wait_some(&mut reqs).expect("two of them are finished");
                    let places: Vec<usize> = done.iter().map(|(place, _)| *place).collect();
                    assert_eq!((places, reqs.len()), (vec![1, 3], 2));
                    let failed = d.wait_some(&mut reqs).expect_err("nothing else comes");
                    assert!(reqs.is_empty());
                    let failed = failed.results.into_iter().map(|(place, result)| (place * 2, result));
                    done.into_iter().map(|(place, done)| (place, Ok(done))).chain(failed).collect()
                }),
            ];

            fn with_a_script() -> (Script, $device) {
                let (script, builder) = Script::builder(2, true, |_| {});
                (script, builder.build_thread().expect("a device over a script"))
            }

            fn large(&self) -> usize {
                self.config().eager_max + 1
            }

            fn start(&mut self) -> Vec<$request> {
                while self.unexpected_len() == 0 {
                    self.progress().expect("progress");
                }
                let world = self.world();
                // In an order in which the first is not finished.
                vec![
                    self.irecv(vec![8; 16], 1, LATE, world).expect("irecv"),
                    self.irecv(vec![7; 16], 1, EARLY, world).expect("irecv"),
                    self.isend(pattern(1, self.large()), 1, LATE, world).expect("isend"),
                    self.irecv(vec![9; 16], PROC_NULL, 1, world).expect("irecv"),
                ]
            }

            fn left(&mut self) -> usize {
                self.posted_len() + self.live_requests()
            }
        }
    };
}

calls!(Device, Request);
calls!(Device<Multiple>, SharedRequest);

/// Finished requests are successes; each other request of a call ends with the netmod's error, and
/// its memory.
fn memory_comes_back<D: Calls>() {
    for (name, complete) in D::CALLS {
        let (script, mut dev) = D::with_a_script();
        let env = Envelope::new(0, 1, EARLY);
        let data = ShortData::new(&[1; 3]).expect("short");
        script.send(1, &Packet::EagerShort { env, ready: false, data }.emit());
        let (reqs, data) = (dev.start(), pattern(1, dev.large()));
        script.break_down();
        let mut results = complete(&mut dev, reqs);
        results.sort_by_key(|(place, _)| *place);
        assert_eq!(results.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [0, 1, 2, 3], "{name}");
        let [late, early, send, nobody] =
            <[_; 4]>::try_from(results).expect("four").map(|(_, result)| result);
        let early = early.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            early.status.len == 3 && early.buffer[..3] == [1; 3] && early.buffer[3..] == [7; 13],
            "{name}"
        );
        assert_eq!(nobody.map(|done| done.buffer), Ok(vec![9; 16]), "{name}");
        let late = late.expect_err("a receive of what never comes");
        assert!(
            matches!(&late.error, Error::Netmod(e) if e.to_string().contains("break down")),
            "{name}: {late}"
        );
        assert_eq!(late.buffer, [8; 16], "{name}");
        let send = send.expect_err("a send that waits for its peer");
        assert!(matches!(send.error, Error::Netmod(_)) && send.data == data, "{name}: {send}");
        assert_eq!(dev.left(), 0, "{name}: no request is left");
    }
}

#[test]
fn memory_comes_back_of_a_device_for_one_thread() {
    memory_comes_back::<Device>();
}

#[test]
fn memory_comes_back_of_a_device_for_all_threads() {
    memory_comes_back::<Device<Multiple>>();
}

/// Requests that are only lent to the calls go on, and can be given to one later.
#[test]
fn lent_requests_go_on() {
    let (script, mut dev) = Script::device(2, true);
    let world = dev.world();
    let mut receive = dev.irecv(vec![8; 16], 1, LATE, world).expect("irecv");
    script.break_down();
    let failed = dev.wait(&mut receive).expect_err("nothing comes");
    assert!(matches!(failed.error, Error::Netmod(_)) && failed.buffer.is_empty());
    assert!(matches!(dev.test(&mut receive).expect_err("nothing comes").error, Error::Netmod(_)));
    let failed = dev.wait_all([&mut receive]).expect_err("nothing comes");
    assert_eq!(failed.first().map(|f| (f.place, f.buffer.len())), Some((Some(0), 0)));
    assert_eq!(dev.posted_len(), 1);
    assert_eq!(dev.wait(receive).expect_err("nothing comes").buffer, [8; 16]);
    assert_eq!(dev.posted_len(), 0);
}

/// Short messages that wait for a connection were copied; when there is none to be had their owners
/// get the data back.
#[test]
fn sends_that_never_left_give_their_data_back() {
    let gone = Arc::new(Barrier::new(2));
    let tune = |cfg: &mut ch3_shim::Config| cfg.tcp.connect_timeout = Duration::from_millis(200);
    run_devices(&Tcp, 2, tune, move |mut dev| {
        let world = dev.world();
        if dev.rank() == 1 {
            drop(dev);
            gone.wait();
            return;
        }
        gone.wait();
        let lens = [8, 8, 8, 1000, 1000, 20_000, dev.config().eager_max + 1];
        let reqs: Vec<Request> = lens
            .iter()
            .map(|len| dev.isend(pattern(*len as u64, *len), 1, 1, world).expect("a send that waits"))
            .collect();
        let failed = dev.wait_all(reqs).expect_err("nobody is there");
        assert_eq!(failed.results.len(), lens.len());
        for ((place, result), len) in failed.results.into_iter().zip(lens) {
            let failed = result.expect_err("nobody is there");
            assert!(matches!(failed.error, Error::Peer(_)), "{failed}");
            assert_eq!(failed.data, pattern(len as u64, len), "send {place} of {len} bytes");
        }
    });
}
