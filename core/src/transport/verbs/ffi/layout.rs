//! Sizes, offsets and numbers compared with those that a C compiler sees in `infiniband/verbs.h`.

use std::fmt::Write;
use std::mem::{offset_of, size_of};
use std::process::Command;

use super::abi::*;

macro_rules! expected {
    ($($type:ident: $($field:ident),*;)* ;constants: $($constant:ident),*) => {{
        let mut all: Vec<(String, String, u64)> = Vec::new();
        $($({
            let c = stringify!($field);
            all.push((
                format!("offset of {}.{}", stringify!($type), c),
                format!("offsetof({}, {})", c_name(stringify!($type)), c),
                offset_of!($type, $field) as u64,
            ));
        })*)*
        $(all.push((
            stringify!($constant).to_owned(),
            stringify!($constant).to_owned(),
            $constant as u64,
        ));)*
        all
    }};
}

fn c_name(name: &str) -> String {
    if name == "ibv_gid" { format!("union {name}") } else { format!("struct {name}") }
}

macro_rules! sizes {
    ($($type:ident),*) => {
        vec![$((
            format!("size of {}", stringify!($type)),
            format!("sizeof({})", c_name(stringify!($type))),
            size_of::<$type>() as u64,
        )),*]
    };
}

#[test]
fn structures_and_numbers_are_those_of_the_header() {
    let mut all = expected! {
        ibv_context: device, ops;
        ibv_context_ops: poll_cq, req_notify_cq, post_send, post_recv;
        ibv_comp_channel: context, fd, refcnt;
        ibv_cq: context, channel;
        ibv_qp: context, qp_num;
        ibv_mr: lkey;
        ibv_device_attr: max_mr_size, max_qp, max_qp_wr, max_cq, max_cqe, max_mr, max_pd,
            phys_port_cnt;
        ibv_port_attr: state, active_mtu, gid_tbl_len, max_msg_sz, lid, link_layer;
        ibv_qp_cap: max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
        ibv_qp_init_attr: qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all;
        ibv_global_route: dgid, flow_label, sgid_index, hop_limit, traffic_class;
        ibv_ah_attr: grh, dlid, sl, src_path_bits, static_rate, is_global, port_num;
        ibv_qp_attr: qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn,
            dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index,
            en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer,
            port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit;
        ibv_sge: addr, length, lkey;
        ibv_send_wr: wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data;
        ibv_recv_wr: wr_id, next, sg_list, num_sge;
        ibv_wc: wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags,
            pkey_index, slid, sl, dlid_path_bits;
        ;constants: IBV_QPT_RC, IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR,
            IBV_QP_STATE, IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_AV,
            IBV_QP_PATH_MTU, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN,
            IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_SQ_PSN,
            IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_CAP, IBV_QP_DEST_QPN, IBV_ACCESS_LOCAL_WRITE,
            IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_WR_SEND, IBV_SEND_SIGNALED,
            IBV_SEND_INLINE
    };
    all.extend(sizes!(
        ibv_context_ops,
        ibv_comp_channel,
        ibv_device_attr,
        ibv_port_attr,
        ibv_gid,
        ibv_qp_cap,
        ibv_qp_init_attr,
        ibv_global_route,
        ibv_ah_attr,
        ibv_qp_attr,
        ibv_sge,
        ibv_send_wr,
        ibv_recv_wr,
        ibv_wc,
        ibv_mr
    ));
    let mut program = String::from(
        "#include <infiniband/verbs.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n",
    );
    for (_, expression, _) in &all {
        let _ = writeln!(program, "  printf(\"%llu\\n\", (unsigned long long)({expression}));");
    }
    program.push_str("  return 0;\n}\n");
    let folder = std::env::temp_dir().join(format!("lycaon-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).output();
    let printed = match &compiled {
        Ok(output) if output.status.success() => Command::new(&binary).output().ok(),
        _ => None,
    };
    std::fs::remove_dir_all(&folder).unwrap();
    let printed = printed.unwrap_or_else(|| {
        panic!(
            "a C compiler and the header infiniband/verbs.h are needed (Debian: apt-get install gcc \
             libibverbs-dev, which `make verbs-header` does): {compiled:?}"
        )
    });
    let text = String::from_utf8(printed.stdout).unwrap();
    let found: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found.len(), all.len());
    let wrong: Vec<String> = all
        .iter()
        .zip(found)
        .filter(|((_, _, ours), theirs)| ours != theirs)
        .map(|((what, _, ours), theirs)| format!("{what}: {ours} here, {theirs} in C"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
