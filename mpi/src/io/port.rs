//! The steps of a collective call on a file: messages, and work outside of the lock.
//!
//! A collective is an `async` function that asks its [`Port`] for one step after the other. The
//! task around it starts the messages of a step whenever some thread makes progress, and has the
//! work done by that thread while nothing is locked, as functions of the program are called.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ch3_shim::{Failed, Request, Vci};
use parking_lot::Mutex;

use crate::comm::CommCore;
use crate::error::{Class, MpiError, Result};
use crate::handle::Datatype;
use crate::objects::Objects;
use crate::status::{Status, failure};
use crate::task::{Progress, Task};

/// Bytes of an error's text that the others are told.
const TEXT: usize = 400;

/// A message of a step.
pub(super) enum Message {
    /// Bytes for a rank.
    Send(usize, Vec<u8>),
    /// A number of bytes of a rank.
    Receive(usize, usize),
    /// At most so many bytes of a rank.
    Upto(usize, usize),
}

/// Work that is done outside of the lock; `None` once it was begun.
type Work = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A step that the task is to do before the function goes on.
enum Want {
    Messages(Vec<Message>),
    Work(Work),
}

#[derive(Default)]
struct Slot {
    want: Option<Want>,
    /// The messages that were received, in the order of the receives.
    answer: Option<Result<Vec<Vec<u8>>>>,
    /// True once a message has failed.
    lost: bool,
}

/// The way of a collective to its task.
#[derive(Clone)]
pub(super) struct Port {
    slot: Arc<Mutex<Slot>>,
    /// Rank of this process.
    pub me: usize,
    /// Number of processes.
    pub n: usize,
}

impl Port {
    fn new(core: &CommCore) -> Port {
        Port { slot: Arc::default(), me: core.rank() as usize, n: core.size() as usize }
    }

    /// Returns true if a message has failed: the others do not hear of this process any more.
    pub(super) fn is_lost(&self) -> bool {
        self.slot.lock().lost
    }

    /// Sends and receives, and returns what was received, in the order of the receives.
    ///
    /// # Errors
    /// A process that is lost, or that has sent less than it was to.
    pub(super) async fn exchange(&self, messages: Vec<Message>) -> Result<Vec<Vec<u8>>> {
        self.slot.lock().want = Some(Want::Messages(messages));
        let answer = || self.slot.lock().answer.take();
        poll_fn(|_| answer().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Runs work while nothing is locked.
    pub(super) async fn outside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        let work: Box<dyn FnOnce() + Send> = Box::new(move || {
            let value = work();
            *place.lock() = Some(value);
        });
        self.slot.lock().want = Some(Want::Work(Arc::new(Mutex::new(Some(work)))));
        let value = || result.lock().take();
        poll_fn(|_| value().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Returns everybody's records, which have the same length.
    ///
    /// # Errors
    /// A process that is lost.
    pub(super) async fn gather(&self, record: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let (me, n, len) = (self.me, self.n, record.len());
        // Records from this process's own on.
        let mut all = record;
        loop {
            let have = all.len() / len.max(1);
            if have >= n || len == 0 {
                break;
            }
            let count = have.min(n - have);
            let messages = vec![
                Message::Receive((me + have) % n, count * len),
                Message::Send((me + n - have) % n, all[..count * len].to_vec()),
            ];
            for more in self.exchange(messages).await? {
                all.extend(more);
            }
        }
        all.rotate_right(me * len);
        Ok(all.chunks_exact(len.max(1)).map(<[u8]>::to_vec).collect())
    }

    /// Returns everybody's number.
    ///
    /// # Errors
    /// A process that is lost.
    pub(super) async fn numbers(&self, own: i64) -> Result<Vec<i64>> {
        let records = self.gather(own.to_le_bytes().to_vec()).await?;
        let number = |record: &Vec<u8>| record.as_chunks().0.first().map_or(0, |b| i64::from_le_bytes(*b));
        Ok(records.iter().map(number).collect())
    }

    /// Lets everybody know how the part of each has ended. Returns this process's result if all
    /// have succeeded.
    ///
    /// # Errors
    /// This process's failure; failing that, the one of the first process that has failed.
    pub(super) async fn settle<T>(&self, own: Result<T>) -> Result<T> {
        let class = own.as_ref().map_or_else(|e| e.class.0, |_| 0);
        let classes = self.numbers(class.into()).await;
        let failed = classes?.iter().position(|class| *class != 0);
        let Some(first) = failed else { return own };
        let mut text = own.as_ref().map_or_else(|e| e.text.clone().into_bytes(), |_| Vec::new());
        text.resize(TEXT, 0);
        let class_and_text = [i64::from(class).to_le_bytes().to_vec(), text].concat();
        let told = self.gather(class_and_text).await?;
        own?;
        let (class, text) = told[first].split_at(8);
        let class = class.as_chunks().0.first().map_or(0, |b| i64::from_le_bytes(*b));
        let text = String::from_utf8_lossy(text);
        let text = format!(
            "rank {first} of the file's group has failed: {}",
            text.trim_end_matches(['\0', '\u{fffd}'])
        );
        Err(MpiError::new(Class(class as i32), text))
    }

    /// Checks that all give the same number.
    ///
    /// # Errors
    /// [`Class::NOT_SAME`], in all processes.
    pub(super) async fn same(&self, what: &str, own: i64) -> Result<()> {
        let all = self.numbers(own).await?;
        let Some(other) = all.iter().position(|number| *number != all[0]) else { return Ok(()) };
        let text = format!(
            "{what} is {} at rank 0 and {} at rank {other} of the file's group: give the same everywhere",
            all[0], all[other]
        );
        Err(MpiError::new(Class::NOT_SAME, text))
    }
}

/// A message under way.
struct Pending {
    request: Request,
    /// Least and most bytes that are expected; `None` for one that leaves.
    bytes: Option<(usize, usize)>,
}

/// The step that a task is at.
enum Step {
    /// The function is to be asked.
    Ask,
    Messages(Vec<Pending>, Option<Box<MpiError>>),
    Work(Work),
}

type Function = Pin<Box<dyn Future<Output = Result<Status>> + Send>>;

/// A collective of a file's group, as a task.
pub(super) struct Collective {
    function: Function,
    port: Port,
    step: Step,
    core: Arc<CommCore>,
    /// Handle of the file, for errors; 0 if it has none yet.
    file: u32,
    tag: i32,
    /// A handle that the access was given, which ends with it.
    frees: Option<Datatype>,
}

impl Collective {
    /// Frees a handle at the end.
    pub(super) fn frees(&mut self, datatype: Datatype) {
        self.frees = Some(datatype);
    }

    /// Makes the task of a blocking collective.
    pub(super) fn blocking<F>(core: &Arc<CommCore>, file: u32, function: impl FnOnce(Port) -> F) -> Collective
    where
        F: Future<Output = Result<Status>> + Send + 'static,
    {
        Collective::new(core, file, core.next_tag(), function)
    }

    /// Makes the task of a collective with a request.
    pub(super) fn nonblocking<F>(
        core: &Arc<CommCore>,
        file: u32,
        function: impl FnOnce(Port) -> F,
    ) -> Collective
    where
        F: Future<Output = Result<Status>> + Send + 'static,
    {
        Collective::new(core, file, core.next_request_tag(), function)
    }

    fn new<F>(core: &Arc<CommCore>, file: u32, tag: i32, function: impl FnOnce(Port) -> F) -> Collective
    where
        F: Future<Output = Result<Status>> + Send + 'static,
    {
        let port = Port::new(core);
        let function = Box::pin(function(port.clone()));
        Collective { function, port, step: Step::Ask, core: Arc::clone(core), file, tag, frees: None }
    }

    /// Starts the messages of a step; none if a process of the group is known to have failed. The
    /// others may have given up in another call, whose messages these would meet.
    fn begin(&self, vci: &mut Vci, messages: Vec<Message>) -> Step {
        if let Some(e) = self.lost(vci) {
            return Step::Messages(Vec::new(), Some(e));
        }
        let (mut pending, mut failed) = (Vec::with_capacity(messages.len()), None);
        for message in messages {
            let place = |rank: usize| self.core.group().place(rank as u32).unwrap_or(0).cast_signed();
            let (begun, bytes) = match message {
                Message::Send(to, data) => (vci.isend(data, place(to), self.tag, self.core.coll), None),
                Message::Receive(from, len) => {
                    (vci.irecv(vec![0; len], place(from), self.tag, self.core.coll), Some((len, len)))
                }
                Message::Upto(from, len) => {
                    (vci.irecv(vec![0; len], place(from), self.tag, self.core.coll), Some((0, len)))
                }
            };
            match begun {
                Ok(request) => pending.push(Pending { request, bytes }),
                Err(e) => _ = failed.get_or_insert(failure(e.error, &self.core)),
            }
        }
        Step::Messages(pending, failed)
    }

    /// Ends messages that are over.
    fn end(
        core: &CommCore,
        vci: &mut Vci,
        pending: Vec<Pending>,
        mut failed: Option<Box<MpiError>>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut received = Vec::new();
        for Pending { request, bytes } in pending {
            match (vci.wait(request), bytes) {
                (Ok(mut done), Some((least, most))) => {
                    let got = done.status.len;
                    done.buffer.truncate(got);
                    if got < least {
                        failed.get_or_insert(short(got, most));
                    }
                    received.push(done.buffer);
                }
                (Ok(_), None) => {}
                (Err(e), _) => {
                    let Failed { error, .. } = *e;
                    failed.get_or_insert(failure(error, core));
                }
            }
        }
        failed.map_or(Ok(received), Err)
    }

    /// Returns the error of a process of the group that has failed, as far as it is known, or of a
    /// communicator that was revoked while a file is opened.
    fn lost(&self, vci: &Vci) -> Option<Box<MpiError>> {
        if self.core.is_revoked() {
            return Some(failure(ch3_shim::Error::Revoked, &self.core));
        }
        let members = self.core.group();
        let failed = vci
            .failed()
            .into_iter()
            .find(|f| vci.place_of_peer(&f.peer).and_then(|p| members.rank(p)).is_some())?;
        let text = format!("{}: the file's group cannot go on without it; close the file", failed.cause);
        Some(MpiError::new(Class::PROC_FAILED, text))
    }

    /// Notes in an error the file that it is about.
    fn raised(&self, mut error: Box<MpiError>) -> Box<MpiError> {
        error.comm = Some(self.file).filter(|file| *file != 0);
        error
    }
}

#[cold]
fn short(got: usize, wanted: usize) -> Box<MpiError> {
    let text = format!(
        "a process of the file's group has sent {got} bytes where {wanted} are expected: collective calls on a file \
         are made by all of its processes in the same order"
    );
    MpiError::new(Class::OTHER, text)
}

impl Task for Collective {
    fn advance(&mut self, vci: &mut Vci, objects: &mut Objects) -> Progress {
        loop {
            match std::mem::replace(&mut self.step, Step::Ask) {
                Step::Ask => {}
                Step::Messages(pending, failed) => {
                    let answer = match self.lost(vci) {
                        _ if pending.iter().all(|m| vci.is_settled(m.request.raw())) => {
                            Collective::end(&self.core, vci, pending, failed)
                        }
                        // The others give up, too, and send no more.
                        Some(e) => Err(e),
                        None => {
                            self.step = Step::Messages(pending, failed);
                            return Progress::Blocked;
                        }
                    };
                    let mut slot = self.port.slot.lock();
                    slot.lost |= answer.is_err();
                    slot.answer = Some(answer);
                }
                Step::Work(work) if work.lock().is_some() => {
                    let call = Arc::clone(&work);
                    self.step = Step::Work(work);
                    return Progress::Call(Box::new(move || {
                        let work = call.lock().take();
                        if let Some(work) = work {
                            work();
                        }
                    }));
                }
                Step::Work(_) => {}
            }
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(result) = self.function.as_mut().poll(&mut context) {
                if let Some(Err(e)) = self.frees.take().map(|datatype| objects.types.remove(datatype)) {
                    return Progress::Done(Err(e));
                }
                return Progress::Done(result.map_err(|e| self.raised(e)));
            }
            let want = self.port.slot.lock().want.take();
            self.step = match want {
                Some(Want::Messages(messages)) => self.begin(vci, messages),
                Some(Want::Work(work)) => Step::Work(work),
                None => return Progress::Blocked,
            };
        }
    }

    fn core(&self) -> Option<&CommCore> {
        None
    }

    fn restart(&mut self, _: &mut Objects) -> Result<()> {
        Err(MpiError::new(Class::REQUEST, "a collective access to a file is not persistent"))
    }
}
