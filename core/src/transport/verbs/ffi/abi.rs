//! Structures and functions of verbs, as `infiniband/verbs.h` declares them on Linux and macOS.
//! Fields that are only there for their size have names that begin with `_`.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_uint, c_void};

pub(super) const IBV_QPT_RC: c_uint = 2;
pub(super) const IBV_QPT_UC: c_uint = 3;

pub(super) const IBV_QPS_INIT: c_uint = 1;
pub(super) const IBV_QPS_RTR: c_uint = 2;
pub(super) const IBV_QPS_RTS: c_uint = 3;
pub(super) const IBV_QPS_ERR: c_uint = 6;

pub(super) const IBV_QP_STATE: c_int = 1;
pub(super) const IBV_QP_ACCESS_FLAGS: c_int = 1 << 3;
pub(super) const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub(super) const IBV_QP_PORT: c_int = 1 << 5;
pub(super) const IBV_QP_AV: c_int = 1 << 7;
pub(super) const IBV_QP_PATH_MTU: c_int = 1 << 8;
pub(super) const IBV_QP_TIMEOUT: c_int = 1 << 9;
pub(super) const IBV_QP_RETRY_CNT: c_int = 1 << 10;
pub(super) const IBV_QP_RNR_RETRY: c_int = 1 << 11;
pub(super) const IBV_QP_RQ_PSN: c_int = 1 << 12;
pub(super) const IBV_QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub(super) const IBV_QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub(super) const IBV_QP_SQ_PSN: c_int = 1 << 16;
pub(super) const IBV_QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub(super) const IBV_QP_CAP: c_int = 1 << 19;
pub(super) const IBV_QP_DEST_QPN: c_int = 1 << 20;

pub(super) const IBV_ACCESS_LOCAL_WRITE: c_int = 1;
pub(super) const IBV_ACCESS_REMOTE_WRITE: c_int = 2;
pub(super) const IBV_ACCESS_REMOTE_READ: c_int = 4;

pub(super) const IBV_WR_SEND: c_uint = 2;
pub(super) const IBV_SEND_SIGNALED: c_uint = 2;
pub(super) const IBV_SEND_INLINE: c_uint = 8;

/// Only ever behind a pointer.
#[repr(C)]
pub(super) struct ibv_device {
    _private: [u8; 0],
}

#[repr(C)]
pub(super) struct ibv_pd {
    _private: [u8; 0],
}

#[repr(C)]
pub(super) struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
pub(super) struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
}

/// Slots that are not used hold pointers of other types.
#[repr(C)]
pub(super) struct ibv_context_ops {
    _before_poll_cq: [*const c_void; 11],
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    _before_post_send: [*const c_void; 12],
    pub post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    _after_post_recv: [*const c_void; 5],
}

#[repr(C)]
pub(super) struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
}

#[repr(C)]
pub(super) struct ibv_qp {
    pub context: *mut ibv_context,
    _qp_context: *mut c_void,
    _pd: *mut ibv_pd,
    _send_cq: *mut ibv_cq,
    _recv_cq: *mut ibv_cq,
    _srq: *mut c_void,
    _handle: u32,
    pub qp_num: u32,
}

#[repr(C)]
pub(super) struct ibv_mr {
    _context: *mut ibv_context,
    _pd: *mut ibv_pd,
    _addr: *mut c_void,
    _length: usize,
    _handle: u32,
    pub lkey: u32,
    _rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_device_attr {
    _fw_ver: [u8; 64],
    _node_guid: u64,
    _sys_image_guid: u64,
    pub max_mr_size: u64,
    _page_size_cap: u64,
    _vendor: [u32; 3],
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    _device_cap_flags: c_uint,
    _max_sge: [c_int; 2],
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    _unused: [c_int; 20],
    _max_pkeys: u16,
    _local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_port_attr {
    pub state: c_uint,
    _max_mtu: c_uint,
    pub active_mtu: c_uint,
    pub gid_tbl_len: c_int,
    _port_cap_flags: u32,
    pub max_msg_sz: u32,
    _bad_pkey_cntr: u32,
    _qkey_viol_cntr: u32,
    _pkey_tbl_len: u16,
    pub lid: u16,
    _sm_lid: u16,
    _bytes: [u8; 8],
    pub link_layer: u8,
    _flags: u8,
    _port_cap_flags2: u16,
}

#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_gid(pub [u8; 16]);

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
pub(super) struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut c_void,
    pub cap: ibv_qp_cap,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_qp_attr {
    pub qp_state: c_uint,
    pub cur_qp_state: c_uint,
    pub path_mtu: c_uint,
    pub path_mig_state: c_uint,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    pub imm_data: u32,
    pub _others: [u64; 11],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ibv_wc {
    pub wr_id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

impl ibv_send_wr {
    pub(super) const EMPTY: ibv_send_wr = ibv_send_wr {
        wr_id: 0,
        next: std::ptr::null_mut(),
        sg_list: std::ptr::null_mut(),
        num_sge: 0,
        opcode: IBV_WR_SEND,
        send_flags: 0,
        imm_data: 0,
        _others: [0; 11],
    };
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions that the library exports. The others go through the context.
        pub(super) struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Looks all of them up.
            ///
            /// # Safety
            /// `library` is a verbs library, which stays loaded.
            pub(super) unsafe fn load(library: &libloading::Library) -> Result<Self, &'static str> {
                Ok(Functions {
                    $($name: {
                        let name = stringify!($name);
                        // SAFETY: the symbol is a function of this type in every verbs library.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> $result>(
                                name.as_bytes(),
                            )
                        };
                        *symbol.map_err(|_| name)?
                    },)*
                })
            }
        }
    };
}

functions! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list: fn(*mut *mut ibv_device) -> ();
    ibv_get_device_name: fn(*mut ibv_device) -> *const c_char;
    ibv_get_device_guid: fn(*mut ibv_device) -> u64;
    ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device: fn(*mut ibv_context) -> c_int;
    ibv_query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    ibv_query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    ibv_query_gid: fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
    ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
    ibv_create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
    ibv_create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int)
        -> *mut ibv_cq;
    ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
    ibv_get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut ibv_cq, c_uint) -> ();
    ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_query_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
    ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
}
