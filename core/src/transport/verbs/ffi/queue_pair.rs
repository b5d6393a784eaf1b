//! Queue pairs: state changes and posting.

use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::abi::*;
use super::{Context, Cq, SPARE, failed};
use crate::transport::verbs::api::{
    Path, Payload, QpDepth, QpType, QueuePair, RecvRequest, SendRequest, Transition, VerbsError,
};

/// A queue pair of the library.
pub(super) struct Qp {
    queue: Arc<Cq>,
    qp: NonNull<ibv_qp>,
    number: u32,
    sends: Vec<ibv_send_wr>,
    recvs: Vec<ibv_recv_wr>,
    sges: Vec<ibv_sge>,
}

// SAFETY: a queue pair may be used by any thread, one at a time; the lists hold pointers only
// within a call.
unsafe impl Send for Qp {}

impl fmt::Debug for Qp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Qp").field(&self.context().name).field(&self.number).finish()
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        let context = self.context();
        // SAFETY: created by this library.
        let answer = unsafe { (context.library.functions.ibv_destroy_qp)(self.qp.as_ptr()) };
        if context.refused("ibv_destroy_qp", answer) {
            std::mem::forget(Arc::clone(&self.queue));
        }
    }
}

impl Qp {
    pub(super) fn new(queue: Arc<Cq>, qp: NonNull<ibv_qp>) -> Self {
        // SAFETY: the library has just made it.
        let number = unsafe { (*qp.as_ptr()).qp_num };
        Qp { queue, qp, number, sends: Vec::new(), recvs: Vec::new(), sges: Vec::new() }
    }

    fn context(&self) -> &Context {
        &self.queue.domain.context
    }

    fn set(&mut self, attributes: &mut ibv_qp_attr, mask: c_int) -> Result<(), VerbsError> {
        let context = self.context();
        // SAFETY: a queue pair that exists, and a whole structure.
        let answer = unsafe {
            (context.library.functions.ibv_modify_qp)(self.qp.as_ptr(), attributes, mask)
        };
        context.check("ibv_modify_qp", answer)
    }
}

/// The attributes for the way to the peer, and which of them are given.
fn path_attributes(path: &Path) -> (ibv_qp_attr, c_int) {
    let grh = ibv_global_route {
        dgid: ibv_gid(path.gid.0),
        sgid_index: path.gid_index,
        hop_limit: path.hop_limit,
        ..ibv_global_route::default()
    };
    let ah_attr = ibv_ah_attr {
        grh,
        dlid: path.lid,
        is_global: 1,
        port_num: path.port,
        ..ibv_ah_attr::default()
    };
    let attributes = ibv_qp_attr {
        qp_state: IBV_QPS_RTR,
        path_mtu: path.mtu.0,
        rq_psn: path.psn,
        dest_qp_num: path.number,
        ah_attr,
        min_rnr_timer: path.min_rnr_timer,
        ..ibv_qp_attr::default()
    };
    let mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    match path.kind {
        QpType::Uc => (attributes, mask),
        QpType::Rc => (attributes, mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
    }
}

impl QueuePair for Qp {
    fn number(&self) -> u32 {
        self.number
    }

    fn depth(&mut self) -> Result<QpDepth, VerbsError> {
        let mut attributes = MaybeUninit::<[u64; SPARE / 8]>::zeroed();
        let mut init = MaybeUninit::<[u64; SPARE / 8]>::zeroed();
        let (attributes, init) = (
            attributes.as_mut_ptr().cast::<ibv_qp_attr>(),
            init.as_mut_ptr().cast::<ibv_qp_init_attr>(),
        );
        let context = self.context();
        // SAFETY: a queue pair that exists, and more room than any version of the structures needs.
        let answer = unsafe {
            (context.library.functions.ibv_query_qp)(self.qp.as_ptr(), attributes, IBV_QP_CAP, init)
        };
        context.check("ibv_query_qp", answer)?;
        // SAFETY: zeroed before, aligned, and plain numbers.
        let (by_init, by_attributes) = unsafe { ((*init).cap, (*attributes).cap) };
        // why: documented are the first ones; some providers fill in the second ones only.
        let cap = if by_init.max_send_wr > 0 { by_init } else { by_attributes };
        Ok(QpDepth { send: cap.max_send_wr, recv: cap.max_recv_wr, inline: cap.max_inline_data })
    }

    fn modify(&mut self, transition: &Transition) -> Result<(), VerbsError> {
        let empty = ibv_qp_attr::default();
        let (mut attributes, mask) = match transition {
            Transition::Init { port, remote } => {
                let all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
                let flags = if *remote { all } else { 0 };
                let qp_access_flags = flags as u32;
                let port_num = *port;
                (
                    ibv_qp_attr { qp_state: IBV_QPS_INIT, port_num, qp_access_flags, ..empty },
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                )
            }
            Transition::ReadyToReceive(path) => path_attributes(path),
            Transition::ReadyToSend { psn, reliability } => {
                let base = ibv_qp_attr { qp_state: IBV_QPS_RTS, sq_psn: *psn, ..empty };
                let mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
                match reliability {
                    None => (base, mask),
                    Some(how) => (
                        ibv_qp_attr {
                            timeout: how.timeout,
                            retry_cnt: how.retries,
                            rnr_retry: how.rnr_retries,
                            ..base
                        },
                        mask | IBV_QP_TIMEOUT
                            | IBV_QP_RETRY_CNT
                            | IBV_QP_RNR_RETRY
                            | IBV_QP_MAX_QP_RD_ATOMIC,
                    ),
                }
            }
            Transition::Error => (ibv_qp_attr { qp_state: IBV_QPS_ERR, ..empty }, IBV_QP_STATE),
        };
        self.set(&mut attributes, mask)
    }

    fn post_send(&mut self, requests: &[SendRequest<'_>]) -> Result<(), VerbsError> {
        let Some(post) = self.queue.ops().post_send else {
            return Err(failed(&self.context().name, "ibv_post_send", 0));
        };
        self.sends.clear();
        self.sges.clear();
        for request in requests {
            let (sge, inline) = match request.payload {
                Payload::Region(sge) => {
                    (ibv_sge { addr: sge.address, length: sge.len, lkey: sge.lkey }, 0)
                }
                Payload::Inline(bytes) => {
                    let length = u32::try_from(bytes.len()).expect("inline sends are small");
                    let addr = bytes.as_ptr() as u64;
                    (ibv_sge { addr, length, lkey: 0 }, IBV_SEND_INLINE)
                }
            };
            self.sges.push(sge);
            let signal = if request.signaled { IBV_SEND_SIGNALED } else { 0 };
            self.sends.push(ibv_send_wr {
                wr_id: request.id,
                num_sge: 1,
                send_flags: signal | inline,
                ..ibv_send_wr::EMPTY
            });
        }
        let (sends, sges) = (self.sends.as_mut_ptr(), self.sges.as_mut_ptr());
        for at in 0..requests.len() {
            // SAFETY: both lists have an entry per request, and are not touched until the call
            // below has returned.
            unsafe {
                (*sends.add(at)).sg_list = sges.add(at);
                if at + 1 < requests.len() {
                    (*sends.add(at)).next = sends.add(at + 1);
                }
            }
        }
        if requests.is_empty() {
            return Ok(());
        }
        let mut bad = ptr::null_mut();
        // SAFETY: a queue pair that exists and a list that ends; what it names is registered
        // memory, which the device checks, or bytes that are borrowed for this call.
        let answer = unsafe { post(self.qp.as_ptr(), sends, &mut bad) };
        self.context().check("ibv_post_send", answer)
    }

    fn post_recv(&mut self, requests: &[RecvRequest]) -> Result<(), VerbsError> {
        let Some(post) = self.queue.ops().post_recv else {
            return Err(failed(&self.context().name, "ibv_post_recv", 0));
        };
        self.recvs.clear();
        self.sges.clear();
        for RecvRequest { id, into } in requests {
            self.sges.push(ibv_sge { addr: into.address, length: into.len, lkey: into.lkey });
            let (next, sg_list) = (ptr::null_mut(), ptr::null_mut());
            self.recvs.push(ibv_recv_wr { wr_id: *id, next, sg_list, num_sge: 1 });
        }
        let (recvs, sges) = (self.recvs.as_mut_ptr(), self.sges.as_mut_ptr());
        for at in 0..requests.len() {
            // SAFETY: as in `post_send`.
            unsafe {
                (*recvs.add(at)).sg_list = sges.add(at);
                if at + 1 < requests.len() {
                    (*recvs.add(at)).next = recvs.add(at + 1);
                }
            }
        }
        if requests.is_empty() {
            return Ok(());
        }
        let mut bad = ptr::null_mut();
        // SAFETY: a queue pair that exists and a list that ends; what it names is registered
        // memory, which the device checks.
        let answer = unsafe { post(self.qp.as_ptr(), recvs, &mut bad) };
        self.context().check("ibv_post_recv", answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::verbs::api::{Gid, Mtu};

    #[test]
    fn the_attributes_of_a_path_are_those_of_its_type() {
        let path = Path {
            kind: QpType::Uc,
            port: 1,
            mtu: Mtu(5),
            number: 77,
            psn: 5,
            lid: 3,
            gid: Gid([9; 16]),
            gid_index: 4,
            hop_limit: 1,
            min_rnr_timer: 12,
        };
        let (attributes, mask) = path_attributes(&path);
        assert_eq!(mask & (IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC), 0);
        assert_eq!((attributes.ah_attr.grh.sgid_index, attributes.ah_attr.dlid), (4, 3));
        let (_, mask) = path_attributes(&Path { kind: QpType::Rc, ..path });
        assert_ne!(mask & IBV_QP_MIN_RNR_TIMER, 0);
        assert_ne!(mask & IBV_QP_MAX_DEST_RD_ATOMIC, 0);
    }
}
