//! Compares the declared layouts and constants with libfabric's installed headers.
//!
//! The test writes a C program that prints them, compiles it with the system's compiler, and runs
//! it. Headers after 1.17 may have longer structures, but only the ones listed here.

#![allow(unsafe_code)]

mod common;

use std::collections::BTreeMap;

use common::probe::{Layout, Program, declared};
use netmod_libfabric_sys::attr::*;
use netmod_libfabric_sys::consts::*;
use netmod_libfabric_sys::fid::*;

/// Structures that later versions have extended.
const LONGER: [&str; 3] = ["fi_domain_attr", "fi_ops_av", "fi_cq_err_entry"];
/// A field that exists since 1.20: older headers must end their structure at its offset.
const OF_1_20: (&str, &str) = ("fi_cq_err_entry", "src_addr");

fn layouts() -> Vec<Layout> {
    layouts! {
        fi_info { next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle, tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic }
        fi_tx_attr { caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit, rma_iov_limit, tclass }
        fi_rx_attr { caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit }
        fi_ep_attr { type_, protocol, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt, auth_key_size, auth_key }
        fi_domain_attr { domain, name, threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit, caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt, tclass }
        fi_fabric_attr { fabric, name, prov_name, prov_version, api_version }
        fid_nic { fid, device_attr, bus_attr, link_attr, prov_attr }
        fi_device_attr { name, device_id, device_version, vendor_id, driver, firmware }
        fi_link_attr { address, mtu, speed, state, network_type }
        fi_av_attr { type_, rx_ctx_bits, count, ep_per_node, name, map_addr, flags }
        fi_cq_attr { size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set }
        fi_cq_msg_entry { op_context, flags, len }
        fi_cq_data_entry { op_context, flags, len, buf, data }
        fi_cq_err_entry { op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size, src_addr }
        fi_msg { msg_iov, desc, iov_count, addr, context, data }
        fi_rma_iov { addr, len, key }
        fi_msg_rma { msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, context, data }
        fi_ioc { addr, count }
        fi_rma_ioc { addr, count, key }
        fi_msg_atomic { msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, datatype, op, context, data }
        fi_context2 { internal }
        fid { fclass, context, ops }
        fi_ops { size, close, bind, control, ops_open, tostr, ops_set }
        fid_fabric { fid, ops, api_version }
        fi_ops_fabric { size, domain, passive_ep, eq_open, wait_open, trywait, domain2 }
        fid_domain { fid, ops, mr }
        fi_ops_domain { size, av_open, cq_open, endpoint, scalable_ep, cntr_open, poll_open, stx_ctx, srx_ctx, query_atomic, query_collective, endpoint2 }
        fi_ops_mr { size, reg, regv, regattr }
        fid_mr { fid, mem_desc, key }
        fid_av { fid, ops }
        fi_ops_av { size, insert, insertsvc, insertsym, remove, lookup, straddr, av_set }
        fid_cq { fid, ops }
        fi_ops_cq { size, read, readfrom, readerr, sread, sreadfrom, signal, strerror }
        fid_wait { fid, ops }
        fid_ep { fid, ops, cm, msg, rma, tagged, atomic, collective }
        fi_ops_ep { size, cancel, getopt, setopt, tx_ctx, rx_ctx, rx_size_left, tx_size_left }
        fi_ops_cm { size, setname, getname, getpeer, connect, listen, accept, reject, shutdown, join }
        fi_ops_msg { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata }
        fi_ops_rma { size, read, readv, readmsg, write, writev, writemsg, inject, writedata, injectdata }
        fi_ops_atomic { size, write, writev, writemsg, inject, readwrite, readwritev, readwritemsg, compwrite, compwritev, compwritemsg, writevalid, readwritevalid, compwritevalid }
    }
}

fn constants() -> Vec<(&'static str, i64)> {
    constants![
        FI_MSG,
        FI_RMA,
        FI_TAGGED,
        FI_ATOMIC,
        FI_READ,
        FI_WRITE,
        FI_RECV,
        FI_SEND,
        FI_TRANSMIT,
        FI_REMOTE_READ,
        FI_REMOTE_WRITE,
        FI_MULTI_RECV,
        FI_MORE,
        FI_COMPLETION,
        FI_INJECT,
        FI_INJECT_COMPLETE,
        FI_TRANSMIT_COMPLETE,
        FI_DELIVERY_COMPLETE,
        FI_LOCAL_COMM,
        FI_REMOTE_COMM,
        FI_SOURCE,
        FI_NAMED_RX_CTX,
        FI_SELECTIVE_COMPLETION,
        FI_CONTEXT,
        FI_MSG_PREFIX,
        FI_ASYNC_IOV,
        FI_RX_CQ_DATA,
        FI_CONTEXT2,
        FI_MR_LOCAL,
        FI_MR_RAW,
        FI_MR_VIRT_ADDR,
        FI_MR_ALLOCATED,
        FI_MR_PROV_KEY,
        FI_MR_MMU_NOTIFY,
        FI_MR_RMA_EVENT,
        FI_MR_ENDPOINT,
        FI_MR_HMEM,
        FI_MR_BASIC,
        FI_MR_SCALABLE,
        FI_ORDER_SAS,
        FI_EP_MSG,
        FI_EP_DGRAM,
        FI_EP_RDM,
        FI_AV_UNSPEC,
        FI_AV_MAP,
        FI_AV_TABLE,
        FI_PROGRESS_AUTO,
        FI_PROGRESS_MANUAL,
        FI_THREAD_SAFE,
        FI_THREAD_DOMAIN,
        FI_THREAD_COMPLETION,
        FI_RM_ENABLED,
        FI_FORMAT_UNSPEC,
        FI_SOCKADDR,
        FI_SOCKADDR_IN,
        FI_SOCKADDR_IN6,
        FI_SOCKADDR_IB,
        FI_ADDR_STR,
        FI_ADDR_UNSPEC,
        FI_CQ_FORMAT_CONTEXT,
        FI_CQ_FORMAT_MSG,
        FI_CQ_FORMAT_DATA,
        FI_WAIT_NONE,
        FI_WAIT_UNSPEC,
        FI_WAIT_FD,
        FI_GETWAIT,
        FI_ENABLE,
        FI_OPT_ENDPOINT,
        FI_OPT_MIN_MULTI_RECV,
        FI_LINK_UP,
        FI_CLASS_FABRIC,
        FI_CLASS_DOMAIN,
        FI_CLASS_EP,
        FI_CLASS_SEP,
        FI_CLASS_RX_CTX,
        FI_CLASS_TX_CTX,
        FI_CLASS_AV,
        FI_CLASS_MR,
        FI_CLASS_EQ,
        FI_CLASS_CQ,
        FI_CLASS_NIC,
        FI_INT32,
        FI_UINT32,
        FI_INT64,
        FI_UINT64,
        FI_MIN,
        FI_MAX,
        FI_SUM,
        FI_BOR,
        FI_BAND,
        FI_BXOR,
        FI_ATOMIC_WRITE,
        FI_CSWAP,
        FI_EAGAIN,
        FI_EAVAIL,
        FI_ETRUNC,
        FI_ENODATA,
        FI_ENOSYS,
        FI_ECANCELED
    ]
}

#[test]
fn every_declaration_is_compared() {
    let (structs, constants_declared) = declared(
        &[include_str!("../src/fid/attr.rs"), include_str!("../src/fid/mod.rs")],
        include_str!("../src/consts.rs"),
    );
    let compared: BTreeMap<String, Vec<String>> = layouts()
        .iter()
        .map(|l| (l.name.to_owned(), l.fields.iter().map(|f| f.0.to_owned()).collect()))
        .collect();
    assert_eq!(structs, compared);
    assert!(structs.len() > 30 && structs.values().all(|fields| !fields.is_empty()));
    let compared: Vec<&str> = constants().iter().map(|c| c.0).collect();
    assert_eq!(constants_declared, compared);
}

/// Returns the output of the C program.
fn headers() -> Option<BTreeMap<String, Vec<i64>>> {
    let mut program = Program::new(&[
        "rdma/fabric.h",
        "rdma/fi_atomic.h",
        "rdma/fi_cm.h",
        "rdma/fi_domain.h",
        "rdma/fi_endpoint.h",
        "rdma/fi_eq.h",
        "rdma/fi_errno.h",
        "rdma/fi_rma.h",
    ]);
    program.line("printf(\"version %d %d\\n\", FI_MAJOR_VERSION, FI_MINOR_VERSION);");
    for layout in layouts() {
        let c = format!("struct {}", layout.name);
        program.size(layout.name, &c);
        for (field, ..) in layout.fields {
            let later = (layout.name, field) == OF_1_20;
            if later {
                program.line("#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 20");
            }
            program.field(layout.name, &c, field);
            if later {
                program.line("#endif");
            }
        }
    }
    for (name, _) in constants() {
        program.value(name, name);
    }
    program.run("the layout of libfabric's structures", "rdma/fabric.h", "libfabric-dev")
}

#[test]
fn layouts_and_numbers_are_those_of_the_headers() {
    let Some(c) = headers() else { return };
    let of = |name: &str| c.get(name).unwrap_or_else(|| panic!("{name} was not printed")).as_slice();
    let version = (of("version")[0], of("version")[1]);
    let mut wrong = Vec::new();
    for layout in layouts() {
        let (rust, in_c) = (layout.size as i64, of(layout.name)[0]);
        let mut fits = rust == in_c || (version > (1, 17) && LONGER.contains(&layout.name) && in_c > rust);
        for (field, offset, size) in layout.fields {
            if (layout.name, field) == OF_1_20 && version < (1, 20) {
                fits |= offset as i64 == in_c && rust == in_c + size as i64;
                continue;
            }
            let (rust, in_c) = ([offset as i64, size as i64], of(&format!("{}.{field}", layout.name)));
            if rust != in_c {
                wrong.push(format!("{}.{field}: offset and size {rust:?}, in C {in_c:?}", layout.name));
            }
        }
        if !fits {
            wrong.push(format!("{}: {rust} bytes, in C {in_c}", layout.name));
        }
    }
    for (name, rust) in constants() {
        let in_c = of(name)[0];
        if rust != in_c {
            wrong.push(format!("{name}: {rust:#x}, in C {in_c:#x}"));
        }
    }
    assert!(wrong.is_empty(), "against the headers of {version:?}:\n{}", wrong.join("\n"));
}
