//! Compares the declared layouts and constants with libibverbs' installed header.
//!
//! The test writes a C program that prints them, compiles it with the system's compiler, and runs
//! it.

#![allow(unsafe_code)]

#[path = "../../libfabric-sys/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use common::probe::{Layout, Program, declared};
use netmod_libibverbs_sys::attr::*;
use netmod_libibverbs_sys::consts::*;
use netmod_libibverbs_sys::object::*;
use netmod_libibverbs_sys::work::*;

/// Records that headers after rdma-core 44 may extend: they are passed with their length, or the
/// library makes them.
const LONGER: [&str; 3] = ["ibv_port_attr", "ibv_device_attr_ex", "ibv_qp_init_attr_ex"];
/// The table that grows in front: its fields are counted from the end.
const GROWS_IN_FRONT: &str = "verbs_context";

/// Returns the C name of a type.
fn in_c(name: &str) -> String {
    let part = |of: &str, path: &str| format!("__typeof__(((struct {of} *)0)->{path})");
    match name {
        "ibv_gid" => "union ibv_gid".into(),
        "ibv_odp_transports" => part("ibv_odp_caps", "per_transport_caps"),
        "ibv_wr" => part("ibv_send_wr", "wr"),
        "ibv_wr_rdma" => part("ibv_send_wr", "wr.rdma"),
        "ibv_wr_atomic" => part("ibv_send_wr", "wr.atomic"),
        "ibv_wr_ud" => part("ibv_send_wr", "wr.ud"),
        "ibv_wr_xrc" => part("ibv_send_wr", "qp_type.xrc"),
        "ibv_wr_bind_mw" => part("ibv_send_wr", "bind_mw"),
        "ibv_event_element" => part("ibv_async_event", "element"),
        name => format!("struct {name}"),
    }
}

fn layouts() -> Vec<Layout> {
    layouts! {
        ibv_gid { raw }
        ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex }
        ibv_device_attr { fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt }
        ibv_query_device_ex_input { comp_mask }
        ibv_odp_transports { rc_odp_caps, uc_odp_caps, ud_odp_caps }
        ibv_odp_caps { general_caps, per_transport_caps }
        ibv_tso_caps { max_tso, supported_qpts }
        ibv_rss_caps { supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size, rx_hash_fields_mask, rx_hash_function }
        ibv_packet_pacing_caps { qp_rate_limit_min, qp_rate_limit_max, supported_qpts }
        ibv_tm_caps { max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge }
        ibv_cq_moderation_caps { max_cq_count, max_cq_period }
        ibv_pci_atomic_caps { fetch_add, swap, compare_swap }
        ibv_device_attr_ex { orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock, device_cap_flags_ex, tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps, raw_packet_caps, tm_caps, cq_mod_caps, max_dm_size, pci_atomic_caps, xrc_odp_caps, phys_port_cnt_ex }
        ibv_port_attr { state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer, flags, port_cap_flags2 }
        ibv_global_route { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        ibv_grh { version_tclass_flow, paylen, next_hdr, hop_limit, sgid, dgid }
        ibv_ah_attr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        ibv_srq_attr { max_wr, max_sge, srq_limit }
        ibv_srq_init_attr { srq_context, attr }
        ibv_tm_cap { max_num_tags, max_ops }
        ibv_srq_init_attr_ex { srq_context, attr, comp_mask, srq_type, pd, xrcd, cq, tm_cap }
        ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        ibv_rx_hash_conf { rx_hash_function, rx_hash_key_len, rx_hash_key, rx_hash_fields_mask }
        ibv_qp_init_attr_ex { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags, max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags }
        ibv_qp_open_attr { comp_mask, qp_num, xrcd, qp_context, qp_type }
        ibv_xrcd_init_attr { comp_mask, fd, oflags }
        ibv_qp_attr { qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit }
        ibv_sge { addr, length, lkey }
        ibv_wr_rdma { remote_addr, rkey }
        ibv_wr_atomic { remote_addr, compare_add, swap, rkey }
        ibv_wr_ud { ah, remote_qpn, remote_qkey }
        ibv_wr { rdma, atomic, ud }
        ibv_wr_xrc { remote_srqn }
        ibv_mw_bind_info { mr, addr, length, mw_access_flags }
        ibv_wr_bind_mw { mw, rkey, bind_info }
        ibv_send_wr { wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr, qp_type, bind_mw }
        ibv_recv_wr { wr_id, next, sg_list, num_sge }
        ibv_wc { wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl, dlid_path_bits }
        ibv_event_element { cq, qp, srq, wq, port_num }
        ibv_async_event { element, event_type }
        _ibv_device_ops { _dummy1, _dummy2 }
        ibv_device { _ops, node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        ibv_context_ops { _compat_query_device, _compat_query_port, _compat_alloc_pd, _compat_dealloc_pd, _compat_reg_mr, _compat_rereg_mr, _compat_dereg_mr, alloc_mw, bind_mw, dealloc_mw, _compat_create_cq, poll_cq, req_notify_cq, _compat_cq_event, _compat_resize_cq, _compat_destroy_cq, _compat_create_srq, _compat_modify_srq, _compat_query_srq, _compat_destroy_srq, post_srq_recv, _compat_create_qp, _compat_query_qp, _compat_modify_qp, _compat_destroy_qp, post_send, post_recv, _compat_create_ah, _compat_destroy_ah, _compat_attach_mcast, _compat_detach_mcast, _compat_async_event }
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
        verbs_context { query_port, advise_mr, alloc_null_mr, read_counters, attach_counters_point_flow, create_counters, destroy_counters, reg_dm_mr, alloc_dm, free_dm, modify_flow_action_esp, destroy_flow_action, create_flow_action_esp, modify_qp_rate_limit, alloc_parent_domain, dealloc_td, alloc_td, modify_cq, post_srq_ops, destroy_rwq_ind_table, create_rwq_ind_table, destroy_wq, modify_wq, create_wq, query_rt_values, create_cq_ex, priv_, query_device_ex, ibv_destroy_flow, ABI_placeholder2, ibv_create_flow, ABI_placeholder1, open_qp, create_qp_ex, get_srq_num, create_srq_ex, open_xrcd, close_xrcd, _ABI_placeholder3, sz, context }
        ibv_pd { context, handle }
        ibv_xrcd { context }
        ibv_mr { context, pd, addr, length, handle, lkey, rkey }
        ibv_ah { context, pd, handle }
        ibv_comp_channel { context, fd, refcnt }
        ibv_cq { context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed, async_events_completed }
        ibv_srq { context, srq_context, pd, handle, mutex, cond, events_completed }
        ibv_qp { context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond, events_completed }
    }
}

fn constants() -> Vec<(&'static str, i64)> {
    constants![
        IBV_GID_TYPE_IB,
        IBV_GID_TYPE_ROCE_V1,
        IBV_GID_TYPE_ROCE_V2,
        IBV_TRANSPORT_UNKNOWN,
        IBV_TRANSPORT_IB,
        IBV_TRANSPORT_IWARP,
        IBV_DEVICE_AUTO_PATH_MIG,
        IBV_DEVICE_SRQ_RESIZE,
        IBV_DEVICE_XRC,
        IBV_DEVICE_PORT_ACTIVE_EVENT,
        IBV_ATOMIC_NONE,
        IBV_ATOMIC_HCA,
        IBV_ATOMIC_GLOB,
        IBV_MTU_256,
        IBV_MTU_512,
        IBV_MTU_1024,
        IBV_MTU_2048,
        IBV_MTU_4096,
        IBV_PORT_NOP,
        IBV_PORT_DOWN,
        IBV_PORT_INIT,
        IBV_PORT_ARMED,
        IBV_PORT_ACTIVE,
        IBV_PORT_ACTIVE_DEFER,
        IBV_LINK_LAYER_UNSPECIFIED,
        IBV_LINK_LAYER_INFINIBAND,
        IBV_LINK_LAYER_ETHERNET,
        IBV_EVENT_CQ_ERR,
        IBV_EVENT_QP_FATAL,
        IBV_EVENT_QP_REQ_ERR,
        IBV_EVENT_QP_ACCESS_ERR,
        IBV_EVENT_COMM_EST,
        IBV_EVENT_SQ_DRAINED,
        IBV_EVENT_PATH_MIG,
        IBV_EVENT_PATH_MIG_ERR,
        IBV_EVENT_DEVICE_FATAL,
        IBV_EVENT_PORT_ACTIVE,
        IBV_EVENT_PORT_ERR,
        IBV_EVENT_LID_CHANGE,
        IBV_EVENT_PKEY_CHANGE,
        IBV_EVENT_SM_CHANGE,
        IBV_EVENT_SRQ_ERR,
        IBV_EVENT_SRQ_LIMIT_REACHED,
        IBV_EVENT_QP_LAST_WQE_REACHED,
        IBV_EVENT_CLIENT_REREGISTER,
        IBV_EVENT_GID_CHANGE,
        IBV_WC_SUCCESS,
        IBV_WC_LOC_LEN_ERR,
        IBV_WC_LOC_QP_OP_ERR,
        IBV_WC_LOC_PROT_ERR,
        IBV_WC_WR_FLUSH_ERR,
        IBV_WC_BAD_RESP_ERR,
        IBV_WC_LOC_ACCESS_ERR,
        IBV_WC_REM_INV_REQ_ERR,
        IBV_WC_REM_ACCESS_ERR,
        IBV_WC_REM_OP_ERR,
        IBV_WC_RETRY_EXC_ERR,
        IBV_WC_RNR_RETRY_EXC_ERR,
        IBV_WC_REM_ABORT_ERR,
        IBV_WC_FATAL_ERR,
        IBV_WC_RESP_TIMEOUT_ERR,
        IBV_WC_GENERAL_ERR,
        IBV_WC_SEND,
        IBV_WC_RDMA_WRITE,
        IBV_WC_RDMA_READ,
        IBV_WC_COMP_SWAP,
        IBV_WC_FETCH_ADD,
        IBV_WC_RECV,
        IBV_WC_RECV_RDMA_WITH_IMM,
        IBV_WC_GRH,
        IBV_WC_WITH_IMM,
        IBV_ACCESS_LOCAL_WRITE,
        IBV_ACCESS_REMOTE_WRITE,
        IBV_ACCESS_REMOTE_READ,
        IBV_ACCESS_REMOTE_ATOMIC,
        IBV_ACCESS_RELAXED_ORDERING,
        IBV_ACCESS_OPTIONAL_RANGE,
        IBV_XRCD_INIT_ATTR_FD,
        IBV_XRCD_INIT_ATTR_OFLAGS,
        IBV_SRQ_MAX_WR,
        IBV_SRQ_LIMIT,
        IBV_SRQT_BASIC,
        IBV_SRQT_XRC,
        IBV_SRQ_INIT_ATTR_TYPE,
        IBV_SRQ_INIT_ATTR_PD,
        IBV_SRQ_INIT_ATTR_XRCD,
        IBV_SRQ_INIT_ATTR_CQ,
        IBV_QPT_RC,
        IBV_QPT_UC,
        IBV_QPT_UD,
        IBV_QPT_XRC_SEND,
        IBV_QPT_XRC_RECV,
        IBV_QP_INIT_ATTR_PD,
        IBV_QP_INIT_ATTR_XRCD,
        IBV_QP_OPEN_ATTR_NUM,
        IBV_QP_OPEN_ATTR_XRCD,
        IBV_QP_OPEN_ATTR_CONTEXT,
        IBV_QP_OPEN_ATTR_TYPE,
        IBV_QP_STATE,
        IBV_QP_CUR_STATE,
        IBV_QP_ACCESS_FLAGS,
        IBV_QP_PKEY_INDEX,
        IBV_QP_PORT,
        IBV_QP_QKEY,
        IBV_QP_AV,
        IBV_QP_PATH_MTU,
        IBV_QP_TIMEOUT,
        IBV_QP_RETRY_CNT,
        IBV_QP_RNR_RETRY,
        IBV_QP_RQ_PSN,
        IBV_QP_MAX_QP_RD_ATOMIC,
        IBV_QP_ALT_PATH,
        IBV_QP_MIN_RNR_TIMER,
        IBV_QP_SQ_PSN,
        IBV_QP_MAX_DEST_RD_ATOMIC,
        IBV_QP_PATH_MIG_STATE,
        IBV_QP_CAP,
        IBV_QP_DEST_QPN,
        IBV_MIG_MIGRATED,
        IBV_MIG_REARM,
        IBV_MIG_ARMED,
        IBV_QPS_RESET,
        IBV_QPS_INIT,
        IBV_QPS_RTR,
        IBV_QPS_RTS,
        IBV_QPS_SQD,
        IBV_QPS_SQE,
        IBV_QPS_ERR,
        IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_SEND,
        IBV_WR_SEND_WITH_IMM,
        IBV_WR_RDMA_READ,
        IBV_WR_ATOMIC_CMP_AND_SWP,
        IBV_WR_ATOMIC_FETCH_AND_ADD,
        IBV_SEND_FENCE,
        IBV_SEND_SIGNALED,
        IBV_SEND_SOLICITED,
        IBV_SEND_INLINE
    ]
}

#[test]
fn every_declaration_is_compared() {
    let (structs, constants_declared) = declared(
        &[
            include_str!("../src/object/attr.rs"),
            include_str!("../src/object/work.rs"),
            include_str!("../src/object/mod.rs"),
        ],
        include_str!("../src/consts.rs"),
    );
    let compared: BTreeMap<String, Vec<String>> = layouts()
        .iter()
        .map(|l| (l.name.to_owned(), l.fields.iter().map(|f| f.0.to_owned()).collect()))
        .collect();
    assert_eq!(structs, compared);
    assert!(structs.len() > 40 && structs.values().all(|fields| !fields.is_empty()));
    let compared: Vec<&str> = constants().iter().map(|c| c.0).collect();
    assert_eq!(constants_declared, compared);
}

/// Returns the output of the C program.
fn headers() -> Option<BTreeMap<String, Vec<i64>>> {
    let mut program = Program::new(&["infiniband/verbs.h"]);
    for layout in layouts() {
        let c = in_c(layout.name);
        program.size(layout.name, &c);
        for (field, ..) in layout.fields {
            program.field(layout.name, &c, field);
        }
    }
    for (name, _) in constants() {
        program.value(name, name);
    }
    program.run("the layout of libibverbs's structures", "infiniband/verbs.h", "libibverbs-dev")
}

/// Compares the output of the C program with the declarations, and returns the differences.
fn wrong(c: &BTreeMap<String, Vec<i64>>) -> Vec<String> {
    let of = |name: &str| c.get(name).unwrap_or_else(|| panic!("{name} was not printed")).as_slice();
    let mut wrong = Vec::new();
    let ours = size_of::<verbs_context>() as i64;
    // Every version that appends anything anywhere also extends the table.
    let newer = of(GROWS_IN_FRONT)[0] > ours;
    for layout in layouts() {
        let (rust, in_c) = ([layout.size as i64, layout.align as i64], of(layout.name));
        let grown = newer && (LONGER.contains(&layout.name) || layout.name == GROWS_IN_FRONT);
        if rust != in_c && !(grown && rust[0] <= in_c[0] && rust[1] == in_c[1]) {
            wrong.push(format!("{}: size and alignment {rust:?}, in C {in_c:?}", layout.name));
        }
        let shift = if layout.name == GROWS_IN_FRONT { in_c[0] - ours } else { 0 };
        for (field, offset, size) in layout.fields {
            let rust = [offset as i64 + shift, size as i64];
            let in_c = of(&format!("{}.{field}", layout.name));
            if rust != in_c {
                wrong.push(format!("{}.{field}: offset and size {rust:?}, in C {in_c:?}", layout.name));
            }
        }
    }
    for (name, rust) in constants() {
        let in_c = of(name)[0];
        if rust != in_c {
            wrong.push(format!("{name}: {rust:#x}, in C {in_c:#x}"));
        }
    }
    wrong
}

#[test]
fn layouts_and_numbers_are_those_of_the_header() {
    if let Some(c) = headers() {
        let wrong = wrong(&c);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Returns this crate's numbers, as a header of the same version would give them.
fn own() -> BTreeMap<String, Vec<i64>> {
    let mut all = BTreeMap::new();
    for layout in layouts() {
        all.insert(layout.name.to_owned(), vec![layout.size as i64, layout.align as i64]);
        for (field, offset, size) in layout.fields {
            all.insert(format!("{}.{field}", layout.name), vec![offset as i64, size as i64]);
        }
    }
    all.extend(constants().into_iter().map(|(name, value)| (name.to_owned(), vec![value])));
    all
}

#[test]
fn a_newer_header_may_have_appended_and_nothing_else() {
    assert_eq!(wrong(&own()), Vec::<String>::new());
    // Another size without a longer table is an error, even for an extensible record.
    let mut c = own();
    c.get_mut("ibv_port_attr").expect("it")[0] += 4;
    assert_eq!(wrong(&c).len(), 1);
    // With a longer table, it is a newer version.
    let table: Vec<String> = c.keys().filter(|k| k.starts_with("verbs_context.")).cloned().collect();
    c.get_mut(GROWS_IN_FRONT).expect("it")[0] += 16;
    for field in &table {
        c.get_mut(field).expect("it")[0] += 16;
    }
    assert_eq!(wrong(&c), Vec::<String>::new());
    // A moved field is an error even then, and so is a longer record that is passed without its
    // length.
    c.get_mut("verbs_context.open_xrcd").expect("it")[0] += 8;
    c.get_mut("ibv_wc").expect("it")[0] += 8;
    assert_eq!(wrong(&c).len(), 2);
}
