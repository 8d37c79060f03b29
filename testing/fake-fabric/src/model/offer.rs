//! The provider's answer to `fi_getinfo`: an offer that satisfies the hints, or none.

use super::State;
use crate::settings::{AddressFormat, MrDialect, Progress};
use libfabric_sys::consts::{
    FI_ADDR_STR, FI_ATOMIC, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_EP_RDM, FI_INJECT, FI_INJECT_COMPLETE,
    FI_LOCAL_COMM, FI_MR_BASIC, FI_MR_SCALABLE, FI_MSG, FI_MULTI_RECV, FI_NAMED_RX_CTX, FI_ORDER_SAS,
    FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL, FI_READ, FI_RECV, FI_REMOTE_COMM, FI_REMOTE_READ, FI_REMOTE_WRITE,
    FI_RMA, FI_SEND, FI_SOCKADDR_IN, FI_THREAD_SAFE, FI_TRANSMIT_COMPLETE, FI_WRITE,
};

/// The provider's name.
pub(crate) const PROVIDER: &str = "fake";

/// Contents of a `fi_info`, requested or offered. Zero and `None` mean unspecified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addr: Vec<u8>,
    pub(crate) provider: Option<String>,
    pub(crate) fabric: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) ep_type: i32,
    pub(crate) max_msg_size: usize,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) threading: i32,
    pub(crate) control_progress: i32,
    pub(crate) data_progress: i32,
    pub(crate) av_type: i32,
    pub(crate) mr_mode: i32,
    pub(crate) mr_key_size: usize,
    pub(crate) mr_cnt: usize,
    pub(crate) max_ep_tx_ctx: usize,
    pub(crate) max_ep_rx_ctx: usize,
    pub(crate) tx: ContextAttr,
    pub(crate) rx: ContextAttr,
    /// Speed and state of the card's link.
    pub(crate) link: Option<(usize, bool)>,
}

/// Attributes of sending or receiving.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContextAttr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
    pub(crate) rma_iov_limit: usize,
}

const TX_CAPS: u64 = FI_MSG
    | FI_RMA
    | FI_ATOMIC
    | FI_SEND
    | FI_READ
    | FI_WRITE
    | FI_NAMED_RX_CTX
    | FI_LOCAL_COMM
    | FI_REMOTE_COMM;
const RX_CAPS: u64 = FI_MSG
    | FI_RMA
    | FI_ATOMIC
    | FI_RECV
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE
    | FI_MULTI_RECV
    | FI_LOCAL_COMM
    | FI_REMOTE_COMM;
const TX_FLAGS: u64 =
    FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
/// `FI_ORDER_SAS`; all weaker orders need no bits.
const ORDER: u64 = FI_ORDER_SAS;

/// Resolves an upper bound: the request must not exceed the maximum, and defaults to it.
fn within(asked: usize, there: usize) -> Option<usize> {
    match asked {
        0 => Some(there),
        asked => (asked <= there).then_some(asked),
    }
}

/// Resolves a choice: the request must be equal, or unspecified.
fn same<T: PartialEq>(asked: Option<&T>, there: &T) -> Option<()> {
    asked.is_none_or(|asked| asked == there).then_some(())
}

fn bits(asked: u64, there: u64) -> Option<()> {
    (asked & !there == 0).then_some(())
}

impl State {
    fn all_caps(&self) -> u64 {
        let settings = &self.settings;
        let mut caps = FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
        if settings.rma {
            caps |= FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        }
        if settings.rma && settings.atomics {
            caps |= FI_ATOMIC;
        }
        if settings.multi_recv {
            caps |= FI_MULTI_RECV;
        }
        if settings.named_rx_ctx && settings.max_ep_rx_ctx > 1 {
            caps |= FI_NAMED_RX_CTX;
        }
        caps
    }

    /// Returns the capabilities granted for the requested ones: also their directions if none are
    /// named, and free ones.
    fn granted(&self, asked: u64) -> Option<u64> {
        let all = self.all_caps();
        bits(asked, all)?;
        if asked == 0 {
            return Some(all);
        }
        let mut caps = asked | FI_LOCAL_COMM | FI_REMOTE_COMM;
        let rma = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
        if asked & FI_MSG != 0 && asked & (FI_SEND | FI_RECV) == 0 {
            caps |= FI_SEND | FI_RECV;
        }
        if asked & (FI_RMA | FI_ATOMIC) != 0 && asked & rma == 0 {
            caps |= rma;
        }
        Some(caps)
    }

    fn granted_mr_mode(&self, asked: Option<i32>) -> Option<i32> {
        let (asked, words) = (asked.unwrap_or(!0), FI_MR_BASIC | FI_MR_SCALABLE);
        match self.settings.mr_dialect {
            MrDialect::Bits => {
                (self.settings.mr_mode & !asked == 0).then_some(self.settings.mr_mode & !words)
            }
            MrDialect::Basic => (asked & FI_MR_BASIC != 0).then_some(FI_MR_BASIC),
            MrDialect::Scalable => (asked & FI_MR_SCALABLE != 0).then_some(FI_MR_SCALABLE),
        }
    }

    fn granted_lane(
        &self,
        asked: &ContextAttr,
        offered: u64,
        caps: u64,
        flags: u64,
        inject: usize,
        size: usize,
    ) -> Option<ContextAttr> {
        bits(asked.caps, caps & offered)?;
        bits(asked.op_flags, flags)?;
        bits(asked.msg_order, ORDER)?;
        Some(ContextAttr {
            caps: if asked.caps == 0 { caps & offered } else { asked.caps },
            mode: self.settings.mode,
            op_flags: asked.op_flags,
            msg_order: ORDER,
            inject_size: if asked.inject_size <= inject { inject } else { return None },
            size: within(asked.size, size)?,
            iov_limit: within(asked.iov_limit, self.settings.iov_limit)?,
            rma_iov_limit: within(asked.rma_iov_limit, self.settings.rma_iov_limit)?,
        })
    }

    /// Returns the offer for these hints.
    pub(crate) fn offer(&self, hints: Option<&Info>) -> Option<Info> {
        let settings = &self.settings;
        let none = Info::default();
        let asked = hints.unwrap_or(&none);
        // Without hints, or without the part with these bits, the application accepts any mode.
        let mr_asked = hints.map(|hints| hints.mr_mode);
        if hints.is_some_and(|hints| settings.mode & !(hints.mode) != 0) {
            return None;
        }
        same(asked.provider.as_ref(), &PROVIDER.to_string())?;
        same(asked.fabric.as_ref(), &self.name)?;
        same(asked.domain.as_ref(), &self.name)?;
        same((asked.ep_type != 0).then_some(&asked.ep_type), &FI_EP_RDM)?;
        let (addr_format, src_addr) = match settings.address {
            AddressFormat::Inet => {
                let mut address = vec![0; 16];
                address[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                address[4..8].copy_from_slice(&self.host_address());
                (FI_SOCKADDR_IN, address)
            }
            AddressFormat::Text(_) => (FI_ADDR_STR, Vec::new()),
        };
        same((asked.addr_format != 0).then_some(&asked.addr_format), &addr_format)?;
        let caps = self.granted(asked.caps)?;
        let data_progress = match settings.progress {
            Progress::Auto | Progress::ClaimsAuto => FI_PROGRESS_AUTO,
            Progress::Manual => FI_PROGRESS_MANUAL,
        };
        let progress = |wanted: i32| match wanted {
            0 => Some(data_progress),
            FI_PROGRESS_AUTO if data_progress != FI_PROGRESS_AUTO => None,
            wanted => Some(wanted),
        };
        let rx_flags = FI_COMPLETION | if settings.multi_recv { FI_MULTI_RECV } else { 0 };
        let contexts = |asked: usize, most: usize| if asked == 0 { Some(1) } else { within(asked, most) };
        Some(Info {
            caps,
            mode: settings.mode,
            addr_format,
            src_addr,
            provider: Some(PROVIDER.into()),
            fabric: Some(self.name.clone()),
            domain: Some(self.name.clone()),
            ep_type: FI_EP_RDM,
            max_msg_size: within(asked.max_msg_size, settings.max_msg_size).map(|_| settings.max_msg_size)?,
            tx_ctx_cnt: contexts(asked.tx_ctx_cnt, settings.max_ep_tx_ctx)?,
            rx_ctx_cnt: contexts(asked.rx_ctx_cnt, settings.max_ep_rx_ctx)?,
            threading: if asked.threading == 0 { FI_THREAD_SAFE } else { asked.threading },
            control_progress: progress(asked.control_progress)?,
            data_progress: progress(asked.data_progress)?,
            av_type: self.av_kind(asked.av_type)?,
            mr_mode: self.granted_mr_mode(mr_asked)?,
            mr_key_size: within(asked.mr_key_size, settings.mr_key_size).map(|_| settings.mr_key_size)?,
            mr_cnt: within(asked.mr_cnt, settings.mr_count).map(|_| settings.mr_count)?,
            max_ep_tx_ctx: within(asked.max_ep_tx_ctx, settings.max_ep_tx_ctx)
                .map(|_| settings.max_ep_tx_ctx)?,
            max_ep_rx_ctx: within(asked.max_ep_rx_ctx, settings.max_ep_rx_ctx)
                .map(|_| settings.max_ep_rx_ctx)?,
            tx: self.granted_lane(
                &asked.tx,
                TX_CAPS,
                caps,
                TX_FLAGS,
                settings.inject_size,
                settings.tx_size,
            )?,
            rx: self.granted_lane(&asked.rx, RX_CAPS, caps, rx_flags, usize::MAX, settings.rx_size)?,
            link: settings.link_speed.map(|speed| (speed, settings.link_up)),
        })
    }
}
