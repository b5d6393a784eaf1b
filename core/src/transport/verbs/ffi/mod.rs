//! Verbs over the library of the system, found at run time: `librdma.dylib` on macOS,
//! `libibverbs.so.1` on Linux.

mod abi;
#[cfg(test)]
mod layout;
mod queue_pair;

use std::ffi::{CStr, c_int};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use self::abi::*;
use self::queue_pair::Qp;
use super::api::{
    Completion, CompletionQueue, Device, DeviceAttributes, DeviceName, Domain, Errno, Gid, Library,
    Memory, Mtu, PortAttributes, PortState, QpRequest, QpType, QueuePair, Quirks, Region, Status,
    System, VerbsError,
};

/// Where the library may be, the best place first.
const PLACES: &[&str] = if cfg!(target_os = "macos") {
    // It lives in the cache of the dynamic linker; there need not be a file.
    &["/usr/lib/librdma.dylib", "librdma.dylib"]
} else {
    &["libibverbs.so.1"]
};

/// More bytes than any version of a structure has: libraries write as many as they know.
const SPARE: usize = 512;

/// The library of this system, loaded once per process.
///
/// # Errors
/// Where it was looked for and what was missing. It is looked for again at the next call.
pub(crate) fn library() -> Result<Arc<dyn Library>, VerbsError> {
    static HANDLE: OnceLock<Arc<dyn Library>> = OnceLock::new();
    if LOADED.get().is_none() {
        let loaded = Loaded::load(PLACES)?;
        LOADED.get_or_init(|| loaded);
    }
    let loaded = LOADED.get().expect("set just now");
    Ok(Arc::clone(HANDLE.get_or_init(|| Arc::new(loaded))))
}

static LOADED: OnceLock<Loaded> = OnceLock::new();

/// The loaded library. It is never unloaded: its providers register handlers with the process.
struct Loaded {
    place: String,
    functions: Functions,
}

impl Loaded {
    fn load(places: &[&str]) -> Result<Loaded, VerbsError> {
        let mut looked_for = Vec::new();
        for place in places {
            // SAFETY: the initialisers of verbs libraries have no preconditions.
            match unsafe { libloading::Library::new(*place) } {
                Ok(library) => {
                    let library = std::mem::ManuallyDrop::new(library);
                    // SAFETY: found under the name of a verbs library; never unloaded.
                    let functions = unsafe { Functions::load(&library) };
                    let functions = functions.map_err(|function| VerbsError::NoFunction {
                        library: (*place).to_owned(),
                        function,
                    })?;
                    return Ok(Loaded { place: (*place).to_owned(), functions });
                }
                Err(error) => {
                    // The reason is in the source; the error itself says only that it failed.
                    let reason = std::error::Error::source(&error)
                        .map_or_else(|| error.to_string(), ToString::to_string);
                    looked_for.push(format!("{place} ({reason})"));
                }
            }
        }
        Err(VerbsError::NoLibrary { looked_for })
    }

    /// Calls `each` with every device of the list until it gives something.
    fn search<T>(
        &self,
        mut each: impl FnMut(*mut ibv_device, &str) -> Option<T>,
    ) -> Result<Option<T>, VerbsError> {
        let mut count: c_int = 0;
        // SAFETY: `count` is there to be written.
        let list = unsafe { (self.functions.ibv_get_device_list)(&mut count) };
        if list.is_null() {
            return Err(failed("any device", "ibv_get_device_list", last()));
        }
        let mut found = None;
        for at in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list has `count` entries.
            let device = unsafe { *list.add(at) };
            if device.is_null() {
                break;
            }
            // SAFETY: a device of the list that has not been freed yet.
            let name = unsafe { (self.functions.ibv_get_device_name)(device) };
            if name.is_null() {
                continue;
            }
            // SAFETY: a string with its end, alive as long as the list.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            found = each(device, &name);
            if found.is_some() {
                break;
            }
        }
        // SAFETY: given out above and not freed. Opened devices outlive it.
        unsafe { (self.functions.ibv_free_device_list)(list) };
        Ok(found)
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loaded").field(&self.place).finish()
    }
}

impl Library for &'static Loaded {
    fn name(&self) -> String {
        self.place.clone()
    }

    fn devices(&self) -> Result<Vec<DeviceName>, VerbsError> {
        let mut names = Vec::new();
        self.search(|device, name| {
            // SAFETY: a device of the list that has not been freed yet.
            let guid = unsafe { (self.functions.ibv_get_device_guid)(device) };
            names.push(DeviceName { name: name.to_owned(), guid: u64::from_be(guid) });
            None::<()>
        })?;
        Ok(names)
    }

    fn keeps_devices_open(&self) -> bool {
        true
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Device>, VerbsError> {
        let mut known = Vec::new();
        let opened = self.search(|device, found| {
            known.push(found.to_owned());
            // SAFETY: a device of the list that has not been freed yet.
            (found == name).then(|| match unsafe { (self.functions.ibv_open_device)(device) } {
                context if context.is_null() => Err(failed(name, "ibv_open_device", last())),
                context => Ok(context),
            })
        })?;
        let Some(opened) = opened else {
            let (library, device) = (self.place.clone(), name.to_owned());
            return Err(VerbsError::NoDevice { library, device, known });
        };
        let context = NonNull::new(opened?).expect("checked above");
        Ok(Arc::new(Context { library: self, name: name.to_owned(), context }))
    }
}

/// The error number of the last call of this thread.
fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn failed(device: &str, verb: &'static str, number: i32) -> VerbsError {
    VerbsError::Verb { device: device.to_owned(), verb, errno: Errno::here(number) }
}

struct Context {
    library: &'static Loaded,
    name: String,
    context: NonNull<ibv_context>,
}

// SAFETY: verbs on a context may be called from any thread; the pointer is only used through them.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn check(&self, verb: &'static str, answer: c_int) -> Result<(), VerbsError> {
        match answer {
            0 => Ok(()),
            // Some answer -1 and set the error number, others answer the number.
            -1 => Err(failed(&self.name, verb, last())),
            number => Err(failed(&self.name, verb, number)),
        }
    }

    fn made<T>(&self, verb: &'static str, pointer: *mut T) -> Result<NonNull<T>, VerbsError> {
        NonNull::new(pointer).ok_or_else(|| failed(&self.name, verb, last()))
    }

    /// Logs a destruction that was refused. Returns whether it was.
    fn refused(&self, verb: &'static str, answer: c_int) -> bool {
        match self.check(verb, answer) {
            Ok(()) => false,
            Err(error) => {
                tracing::warn!(%error, "a resource of an RDMA device could not be given back");
                true
            }
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.name).finish()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by this library; everything made from it is gone, since it would hold on
        // to this value.
        let answer = unsafe { (self.library.functions.ibv_close_device)(self.context.as_ptr()) };
        self.refused("ibv_close_device", answer);
    }
}

impl Device for Context {
    fn name(&self) -> &str {
        &self.name
    }

    fn quirks(&self) -> Quirks {
        match System::HERE {
            System::Darwin => Quirks::APPLE,
            System::Linux if self.name.starts_with("usb4_rdma") => Quirks::USB4,
            System::Linux => Quirks::STANDARD,
        }
    }

    fn attributes(&self) -> Result<DeviceAttributes, VerbsError> {
        let mut buffer = MaybeUninit::<[u64; SPARE / 8]>::zeroed();
        let place: *mut ibv_device_attr = buffer.as_mut_ptr().cast();
        // SAFETY: an open context, and more room than any version of the structure needs.
        let answer =
            unsafe { (self.library.functions.ibv_query_device)(self.context.as_ptr(), place) };
        self.check("ibv_query_device", answer)?;
        // SAFETY: zeroed before, aligned, and plain numbers.
        let found = unsafe { *place };
        let count = |number: c_int| u32::try_from(number).unwrap_or(0);
        Ok(DeviceAttributes {
            max_qp: count(found.max_qp),
            max_qp_wr: count(found.max_qp_wr),
            max_cq: count(found.max_cq),
            max_cqe: count(found.max_cqe),
            max_mr: count(found.max_mr),
            max_mr_size: found.max_mr_size,
            max_pd: count(found.max_pd),
            ports: found.phys_port_cnt,
        })
    }

    fn port(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        let mut buffer = MaybeUninit::<[u64; SPARE / 8]>::zeroed();
        let place: *mut ibv_port_attr = buffer.as_mut_ptr().cast();
        // SAFETY: an open context, and more room than any version of the structure needs.
        let answer =
            unsafe { (self.library.functions.ibv_query_port)(self.context.as_ptr(), port, place) };
        self.check("ibv_query_port", answer)?;
        // SAFETY: zeroed before, aligned, and plain numbers.
        let found = unsafe { *place };
        Ok(PortAttributes {
            state: PortState(found.state),
            active_mtu: Mtu(found.active_mtu),
            lid: found.lid,
            gid_table_len: u32::try_from(found.gid_tbl_len).unwrap_or(0),
            max_message: found.max_msg_sz,
            link_layer: found.link_layer,
        })
    }

    fn gid(&self, port: u8, index: u32) -> Result<Option<Gid>, VerbsError> {
        let Ok(index) = c_int::try_from(index) else { return Ok(None) };
        let mut gid = ibv_gid::default();
        // SAFETY: an open context and room for the identifier.
        let answer = unsafe {
            (self.library.functions.ibv_query_gid)(self.context.as_ptr(), port, index, &mut gid)
        };
        // why: a slot without an identifier is refused by some providers, zero with others.
        let gid = Gid(gid.0);
        Ok((answer == 0 && !gid.is_empty()).then_some(gid))
    }

    fn alloc_domain(self: Arc<Self>) -> Result<Arc<dyn Domain>, VerbsError> {
        // SAFETY: an open context.
        let pd = unsafe { (self.library.functions.ibv_alloc_pd)(self.context.as_ptr()) };
        let pd = self.made("ibv_alloc_pd", pd)?;
        Ok(Arc::new(Pd { context: self, pd }))
    }
}

#[derive(Debug)]
struct Pd {
    context: Arc<Context>,
    pd: NonNull<ibv_pd>,
}

// SAFETY: as for the context.
unsafe impl Send for Pd {}
// SAFETY: as above.
unsafe impl Sync for Pd {}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: allocated by this library; everything in it is gone, since it would hold on to
        // this value.
        let answer = unsafe { (self.context.library.functions.ibv_dealloc_pd)(self.pd.as_ptr()) };
        if self.context.refused("ibv_dealloc_pd", answer) {
            std::mem::forget(Arc::clone(&self.context));
        }
    }
}

impl Domain for Pd {
    fn register(self: Arc<Self>, memory: Arc<Memory>) -> Result<Box<dyn Region>, VerbsError> {
        let all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        // why: local writing is all that is needed; some versions of macOS refuse it alone.
        let flags = match System::HERE {
            System::Darwin => &[all, IBV_ACCESS_LOCAL_WRITE][..],
            System::Linux => &[IBV_ACCESS_LOCAL_WRITE][..],
        };
        let mut made = Err(failed(&self.context.name, "ibv_reg_mr", 0));
        for flags in flags {
            // SAFETY: the memory is mapped, and stays so as long as the region holds on to it.
            let mr = unsafe {
                (self.context.library.functions.ibv_reg_mr)(
                    self.pd.as_ptr(),
                    ptr::without_provenance_mut(memory.address() as usize),
                    memory.len(),
                    *flags,
                )
            };
            made = self.context.made("ibv_reg_mr", mr);
            if made.is_ok() {
                break;
            }
        }
        let mr = made?;
        // SAFETY: a region that was just made.
        let lkey = unsafe { (*mr.as_ptr()).lkey };
        Ok(Box::new(Mr { domain: self, memory, mr, lkey }))
    }

    fn create_cq(
        self: Arc<Self>,
        entries: u32,
        channel: bool,
    ) -> Result<Arc<dyn CompletionQueue>, VerbsError> {
        let (context, functions) = (&self.context, &self.context.library.functions);
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        let channel = match channel {
            // SAFETY: an open context.
            true => Some(context.made("ibv_create_comp_channel", unsafe {
                (functions.ibv_create_comp_channel)(context.context.as_ptr())
            })?),
            false => None,
        };
        let mut queue =
            Cq { domain: Arc::clone(&self), cq: None, channel, buffer: Mutex::new(Vec::new()) };
        if let Some(channel) = queue.channel() {
            rustix::io::ioctl_fionbio(channel, true).map_err(|error| {
                failed(&context.name, "ibv_create_comp_channel", error.raw_os_error())
            })?;
        }
        let channel = queue.channel.map_or(ptr::null_mut(), NonNull::as_ptr);
        // SAFETY: an open context and a channel of its own, or none.
        let cq = unsafe {
            (functions.ibv_create_cq)(
                context.context.as_ptr(),
                entries,
                ptr::null_mut(),
                channel,
                0,
            )
        };
        queue.cq = Some(context.made("ibv_create_cq", cq)?);
        Ok(Arc::new(queue))
    }
}

#[derive(Debug)]
struct Mr {
    domain: Arc<Pd>,
    memory: Arc<Memory>,
    mr: NonNull<ibv_mr>,
    lkey: u32,
}

// SAFETY: the pointer is only used to give the region back.
unsafe impl Send for Mr {}
// SAFETY: as above.
unsafe impl Sync for Mr {}

impl Region for Mr {
    fn lkey(&self) -> u32 {
        self.lkey
    }

    fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        let context = &self.domain.context;
        // SAFETY: registered by this library.
        let answer = unsafe { (context.library.functions.ibv_dereg_mr)(self.mr.as_ptr()) };
        if context.refused("ibv_dereg_mr", answer) {
            // The device may still write there.
            std::mem::forget((Arc::clone(&self.domain), Arc::clone(&self.memory)));
        }
    }
}

#[derive(Debug)]
struct Cq {
    domain: Arc<Pd>,
    /// There once it was created.
    cq: Option<NonNull<ibv_cq>>,
    channel: Option<NonNull<ibv_comp_channel>>,
    /// Also keeps polls one after the other: nobody promises that they may overlap.
    buffer: Mutex<Vec<Wc>>,
}

/// One place for a completion.
#[derive(Clone, Copy, Default)]
struct Wc(ibv_wc);

impl fmt::Debug for Wc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wc").field(&self.0.wr_id).field(&self.0.status).finish()
    }
}

// SAFETY: as for the context; polls are kept apart by the lock.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

impl Cq {
    fn raw(&self) -> *mut ibv_cq {
        self.cq.expect("nobody has it before it was created").as_ptr()
    }

    fn ops(&self) -> &ibv_context_ops {
        // SAFETY: an open context, which `self` keeps open; its table does not change.
        unsafe { &(*self.domain.context.context.as_ptr()).ops }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        let context = &self.domain.context;
        let functions = &context.library.functions;
        let kept = self.cq.is_some_and(|cq| {
            // SAFETY: created by this library; its queue pairs are gone, since they would hold on
            // to this value, and all events were acknowledged.
            let answer = unsafe { (functions.ibv_destroy_cq)(cq.as_ptr()) };
            context.refused("ibv_destroy_cq", answer)
        });
        if kept {
            std::mem::forget(Arc::clone(&self.domain));
            return;
        }
        if let Some(channel) = self.channel {
            // SAFETY: created by this library; its queue is gone.
            let answer = unsafe { (functions.ibv_destroy_comp_channel)(channel.as_ptr()) };
            context.refused("ibv_destroy_comp_channel", answer);
        }
    }
}

impl CompletionQueue for Cq {
    fn poll(&self, most: usize, into: &mut Vec<Completion>) -> Result<usize, VerbsError> {
        let context = &self.domain.context;
        let poll = self.ops().poll_cq;
        let poll = poll.ok_or_else(|| failed(&context.name, "ibv_poll_cq", 0))?;
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let most = most.min(c_int::MAX as usize);
        if buffer.len() < most {
            buffer.resize(most, Wc::default());
        }
        // SAFETY: a queue that exists, and `most` places for completions.
        let count = unsafe { poll(self.raw(), most as c_int, buffer.as_mut_ptr().cast()) };
        let Ok(count) = usize::try_from(count) else {
            return Err(failed(&context.name, "ibv_poll_cq", if count == -1 { 0 } else { count }));
        };
        into.extend(buffer[..count.min(most)].iter().map(|Wc(wc)| Completion {
            id: wc.wr_id,
            status: Status(wc.status),
            qp: wc.qp_num,
            bytes: wc.byte_len,
            vendor: wc.vendor_err,
        }));
        Ok(count)
    }

    fn channel(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the channel exists, and its descriptor is open, as long as `self`.
        self.channel.map(|channel| unsafe { BorrowedFd::borrow_raw((*channel.as_ptr()).fd) })
    }

    fn arm(&self) -> Result<(), VerbsError> {
        let context = &self.domain.context;
        let arm = self.ops().req_notify_cq;
        let arm = arm.ok_or_else(|| failed(&context.name, "ibv_req_notify_cq", 0))?;
        // SAFETY: a queue that exists.
        context.check("ibv_req_notify_cq", unsafe { arm(self.raw(), 0) })
    }

    fn answer(&self) -> Result<(), VerbsError> {
        let Some(channel) = self.channel else { return Ok(()) };
        let functions = &self.domain.context.library.functions;
        let mut events = 0;
        loop {
            let (mut cq, mut data) = (ptr::null_mut(), ptr::null_mut());
            // SAFETY: a channel that exists and does not block, and room for both answers.
            let answer =
                unsafe { (functions.ibv_get_cq_event)(channel.as_ptr(), &mut cq, &mut data) };
            if answer != 0 {
                break;
            }
            events += 1;
        }
        if events > 0 {
            // SAFETY: the events were of this queue, the only one of its channel.
            unsafe { (functions.ibv_ack_cq_events)(self.raw(), events) };
        }
        Ok(())
    }

    fn create_qp(self: Arc<Self>, request: &QpRequest) -> Result<Box<dyn QueuePair>, VerbsError> {
        let mut init = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: self.raw(),
            recv_cq: self.raw(),
            srq: ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: request.depth.send,
                max_recv_wr: request.depth.recv,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: request.depth.inline,
            },
            qp_type: match request.kind {
                QpType::Rc => IBV_QPT_RC,
                QpType::Uc => IBV_QPT_UC,
            },
            sq_sig_all: c_int::from(request.signal_all),
        };
        let context = &self.domain.context;
        // SAFETY: a domain and a queue that exist.
        let qp = unsafe {
            (context.library.functions.ibv_create_qp)(self.domain.pd.as_ptr(), &mut init)
        };
        let qp = context.made("ibv_create_qp", qp)?;
        Ok(Box::new(Qp::new(self, qp)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_told_with_its_places() {
        let places = ["/nowhere/libverbs-a.so", "libverbs-that-nobody-has.so"];
        let text = Loaded::load(&places).unwrap_err().to_string();
        assert!(
            text.starts_with("no verbs library: looked for /nowhere/libverbs-a.so ("),
            "{text}"
        );
        assert!(text.contains("libverbs-that-nobody-has.so (") && text.contains("cannot open"));
    }

    #[test]
    fn a_library_that_is_something_else_is_told_with_what_it_lacks() {
        let place = if cfg!(target_os = "macos") { "libSystem.dylib" } else { "libc.so.6" };
        let text = Loaded::load(&[place]).unwrap_err().to_string();
        assert_eq!(text, format!("{place} has no function ibv_get_device_list"));
    }
}
